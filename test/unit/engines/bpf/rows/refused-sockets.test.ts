// SPDX-License-Identifier: Apache-2.0
// The sockets whose datagrams the packet programs send elsewhere, or refuse, follow each pass.
import { beforeEach, expect, test } from 'vitest';
import {
  decodeU32,
  encodeU32,
  REFUSED_SOCKETS_OFFSET,
} from '../../../../../src/engines/bpf/layout/layout.ts';
import type { RowTable } from '../../../../../src/engines/bpf/layout/rows.ts';
import { DATAGRAMS, namedSockets } from '../../../../../src/engines/bpf/rows/refused-sockets.ts';

let held: Map<bigint, number>;
const memory = new DataView(new ArrayBuffer(16));
const cookieOf = (key: Uint8Array): bigint => new BigUint64Array(key.slice().buffer)[0]!;
const table: RowTable = {
  name: 'fl_refused_sock',
  readAll: () =>
    [...held].map(([cookie, value]) => ({
      key: new Uint8Array(BigUint64Array.of(cookie).buffer),
      value: encodeU32(value),
    })),
  put: (keys, values) => {
    for (const [index, key] of keys.entries()) held.set(cookieOf(key), decodeU32(values[index]!));
    return [];
  },
  delete: (keys) => {
    for (const key of keys) held.delete(cookieOf(key));
    return [];
  },
};
const { served, refused } = DATAGRAMS;
const count = (): number => memory.getUint32(REFUSED_SOCKETS_OFFSET, true);

beforeEach(() => {
  held = new Map([[7n, 0]]); // an earlier agent's
});

test('what is not wanted any more goes, the rest stays; the count follows', () => {
  const name = namedSockets(table, { view: () => memory, offset: () => 0 });
  name({ served: [1n], refused: [2n] });
  expect([[...held].sort(), count()]).toEqual([
    [
      [1n, served],
      [2n, refused],
    ],
    2,
  ]);
  name({ served: [2n], refused: [3n] });
  expect([[...held].sort(), count()]).toEqual([
    [
      [2n, served],
      [3n, refused],
    ],
    2,
  ]);
  name({ served: [], refused: [] });
  expect([[...held].sort(), count()]).toEqual([[], 0]);
});

test('a map that is full: the pass fails, and says so; what is there is counted', () => {
  const full: RowTable = { ...table, put: () => [{ index: 1, code: 'E2BIG' }] };
  const name = namedSockets(full, { view: () => memory, offset: () => 0 });
  const sockets = { served: [], refused: [1n, 2n] };
  expect(() => name(sockets)).toThrow('fl_refused_sock refused 1 of 2 sockets (E2BIG)');
  expect(count()).toBe(1);
});

test('what somebody else has changed is mended by the next pass', () => {
  const name = namedSockets(table, { view: () => memory, offset: () => 0 });
  name({ served: [1n], refused: [2n] });
  held = new Map([
    [1n, refused],
    [3n, refused],
  ]);
  name({ served: [1n], refused: [2n] });
  expect([[...held].sort(), count()]).toEqual([
    [
      [1n, served],
      [2n, refused],
    ],
    2,
  ]);
});
