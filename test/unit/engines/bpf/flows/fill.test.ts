// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { connFill } from '../../../../../src/engines/bpf/flows/fill.ts';

const BEFORE = { IPv4: 2, IPv6: 0 };

const NONE = { used: 0, halfOpen: 0, evicted: 0, noRoom: 0 };

test('a table is full when connections have found no place; half-open ones evict', () => {
  const found = { IPv4: { used: 450, halfOpen: 20, evicted: 3, noRoom: 5 }, IPv6: NONE };
  expect(connFill(found, () => 100, BEFORE)).toEqual([
    {
      ...{ name: 'fl_conn4', used: 450, capacity: 595 },
      problem:
        'fl_conn4 is full (made for 595 connections): 3 have found no place in the last seconds, their packets were dropped; it grows up to --map-size flows=…: raise that, or look in the log why it cannot grow',
    },
    { name: 'fl_client4', used: 20, capacity: 300, evicts: true },
    { name: 'fl_conn6', used: 0, capacity: 595 },
    { name: 'fl_client6', used: 0, capacity: 300, evicts: true },
  ]);
});

test('it has a problem only while connections find no place, and each family has its own size', () => {
  const found = { IPv4: { ...NONE, noRoom: 2 }, IPv6: { ...NONE, used: 10, noRoom: 1 } };
  const rows = connFill(found, (family) => (family === 'IPv4' ? 100 : 200), BEFORE);
  expect(
    rows.map(({ name, capacity, problem }) => [name, capacity, problem !== undefined]),
  ).toEqual([
    ['fl_conn4', 595, false],
    ['fl_client4', 300, false],
    ['fl_conn6', 1_190, true],
    ['fl_client6', 600, false],
  ]);
});
