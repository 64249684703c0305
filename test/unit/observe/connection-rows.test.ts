// SPDX-License-Identifier: Apache-2.0
// The rows of `fairlead connections`: order, limit, filters by state, ages and rates.
import { describe, expect, test } from 'vitest';
import type { Connection, ConnectionView } from '../../../src/engines/connections.ts';
import {
  type ConnectionRow,
  listConnections,
  withRates,
} from '../../../src/observe/connection-rows.ts';

const VIEW: ConnectionView = {
  ...{ state: 'established', snat: undefined },
  ...{ bornSeconds: 900, seenSeconds: 990 },
  toBackend: { packets: 60, bytes: 4000 },
  toClient: { packets: 40, bytes: 6000 },
};
const port = (name: string) => ({
  ...{ namespace: 'default', name, portName: 'http' },
  ...({ protocol: 'TCP', family: 'IPv4' } as const),
});

let reads = 0;
function connection(
  order: string,
  facts: Partial<Connection> = {},
  view?: Partial<ConnectionView>,
): Connection {
  return {
    ...{ key: `flow-${order}`, order, origin: 'packet', family: 'IPv4', protocol: 'TCP' },
    ...{ port: port('web'), client: `203.0.113.9:${order}`, frontend: '192.0.2.10:80' },
    ...{ backend: '10.1.1.5:8080', backendState: 'active' },
    read() {
      reads += 1;
      return { ...VIEW, ...view };
    },
    dropStale: () => false,
    ...facts,
  };
}

const list = (
  all: Iterable<Connection>,
  options: { limit?: number; states?: readonly string[] } = {},
) =>
  listConnections(
    all,
    { matches: () => true, states: options.states, limit: options.limit ?? 100 },
    1000.7,
  );
const keys = (rows: readonly ConnectionRow[]): readonly string[] => rows.map(({ key }) => key);

test('a row says how old and how idle it is, and its rate since it began', () => {
  const [row] = list([connection('1')]).rows;
  expect(row).toMatchObject({
    ...{ namespace: 'default', name: 'web', port: 'http', ageSeconds: 100, idleSeconds: 10 },
    perSecond: { packets: 1, bytes: 100 },
  });
});

test('by Service, then in the order of the dataplane; unnamed ones come last', () => {
  const all = [
    connection('9', { port: undefined }),
    connection('3'),
    connection('5', { port: port('dns') }),
    connection('2'),
  ];
  expect(keys(list(all).rows)).toEqual(['flow-5', 'flow-2', 'flow-3', 'flow-9']);
});

describe('a limit', () => {
  const many = (count: number): readonly Connection[] =>
    Array.from({ length: count }, (_, at) =>
      connection(String((at * 7919) % count).padStart(6, '0')),
    );

  test.each([1, 2, 999, 1000, 1500])('the first %i of 5,000, and only they are read', (limit) => {
    reads = 0;
    const { rows, leftOut } = list(many(5000), { limit });
    const expected = Array.from(
      { length: limit },
      (_, at) => `flow-${String(at).padStart(6, '0')}`,
    );
    expect(keys(rows)).toEqual(expected);
    expect(leftOut).toBe(5000 - limit);
    expect(reads).toBe(limit);
  });

  test('what has ended meanwhile is no row and not left out', () => {
    const ended = connection('1', { read: () => undefined });
    expect(list([ended, connection('2')])).toMatchObject({ rows: [{ key: 'flow-2' }], leftOut: 0 });
  });
});

test.each<[states: readonly string[], expected: readonly string[]]>([
  [['established'], ['flow-1']],
  [
    ['new', 'closed'],
    ['flow-2', 'flow-3'],
  ],
  [['stale'], ['flow-3']],
  [
    ['stale', 'new'],
    ['flow-2', 'flow-3'],
  ],
])('states %j: %j', (states, expected) => {
  const all = [
    connection('1'),
    connection('2', {}, { state: 'new' }),
    connection('3', { backendState: 'gone' }, { state: 'closed' }),
    connection('4', { read: () => undefined }),
  ];
  expect(keys(list(all, { states }).rows)).toEqual(expected);
});

describe('rates', () => {
  const row = (view: Partial<ConnectionView>, order = '1'): ConnectionRow => {
    const [found] = list([connection(order, {}, view)]).rows;
    if (found === undefined) throw new Error('no row');
    return found;
  };

  test('between two readings', () => {
    const before = [row({})];
    const now = [
      row({ toBackend: { packets: 70, bytes: 4500 }, toClient: { packets: 50, bytes: 6500 } }),
      row({}, '2'),
    ];
    expect(withRates(now, before, 2).map(({ perSecond }) => perSecond)).toEqual([
      { packets: 10, bytes: 500 },
      { packets: 1, bytes: 100 },
    ]);
  });

  test('counters that began anew are no negative rate', () => {
    const anew = { toBackend: { packets: 1, bytes: 60 }, toClient: { packets: 0, bytes: 0 } };
    expect(withRates([row(anew)], [row({})], 1)[0]?.perSecond).toEqual({ packets: 0, bytes: 0 });
  });

  test.each<[string, Partial<ConnectionView>, ConnectionRow['perSecond']]>([
    ['within the first second', { bornSeconds: 1000 }, { packets: 100, bytes: 10_000 }],
    ['age not known', { bornSeconds: undefined }, undefined],
    ['not counted', { toBackend: undefined, toClient: undefined }, undefined],
  ])('%s', (_, view, expected) => {
    expect(row(view).perSecond).toEqual(expected);
  });
});
