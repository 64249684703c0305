// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { freezable } from '../../../src/instance/readers.ts';
import { agentReaders } from '../server/readers.ts';

function* counting(state: { count: number }) {
  yield { ...LABELS, refused: state.count, dropped: 0, connections: 0 };
}
const LABELS = {
  namespace: 'default',
  service: 'web',
  port: 'http',
  protocol: 'TCP',
  family: 'IPv4',
} as const;

test('frozen readers say what they said then, also those of generators, as often as they are asked', () => {
  const state = { count: 1, isClosed: false };
  const read = <T>(value: T): T => {
    if (state.isClosed) throw new Error('closed');
    return value;
  };
  const { readers, freeze } = freezable(
    agentReaders({
      driftTotal: () => read(state.count),
      serviceConnections: () => read(counting(state)),
      tables: () => {
        throw new Error('never readable');
      },
      topServices: 7,
    }),
  );
  expect(readers.driftTotal()).toBe(1);
  state.count = 2;
  expect(readers.driftTotal()).toBe(2);
  expect(() => readers.tables()).toThrow('never readable');
  freeze();
  state.isClosed = true;
  state.count = 3;
  expect(readers.driftTotal()).toBe(2);
  for (let n = 0; n < 2; n++) {
    expect([...readers.serviceConnections()]).toMatchObject([{ refused: 2 }]);
  }
  expect(readers.tables()).toBeUndefined();
  expect(readers.topServices).toBe(7);
});
