// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { flowFill } from '../../../../../src/dataplane/bpf/flows/fill.ts';

test('a full table of established flows is a problem, one of half-open flows evicts', () => {
  const used = new Map([
    ['fl_flow4', 7],
    ['fl_nat4', 8],
    ['fl_new_flow4', 8],
  ]);
  expect(flowFill(used, () => 8)).toEqual([
    { name: 'fl_flow4', used: 7, capacity: 8 },
    {
      ...{ name: 'fl_nat4', used: 8, capacity: 8 },
      problem:
        'fl_nat4 is full (8 flows): further ones stay among the half-open flows, of which the least recently used are evicted; raise --map-size flows=…',
    },
    { name: 'fl_new_flow4', used: 8, capacity: 8, evicts: true },
  ]);
});
