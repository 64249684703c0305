// SPDX-License-Identifier: Apache-2.0
// How full the table is, from what each CPU has done to it.
import { expect, test } from 'vitest';
import { occupancyOf } from '../../../../../src/engines/bpf/conn/counts.ts';
import { memoryArray } from '../../../../support/tables/memory.ts';

/** Rows of each CPU: IPv4, IPv6. */
function occupancy(...rows: readonly (readonly (number | bigint)[])[]) {
  const counts = memoryArray('fl_conn_count', 6, 64);
  for (const [row, words] of rows.entries()) {
    new BigUint64Array(counts.bytes.buffer, 64 * row, 8).set(words.map(BigInt));
  }
  return occupancyOf(counts);
}
const NONE = { used: 0, halfOpen: 0, noRoom: 0 };

test('all CPUs are added up, each family by itself', () => {
  const found = occupancy([9, 1, 5, 2, 7, 1], [3, 0, 3, 0, 0, 0], [2, 6, 0, 1, 1, 1], [0, 1]);
  expect(found).toEqual({
    IPv4: { used: 4, halfOpen: 2, noRoom: 2 },
    IPv6: { used: 2, halfOpen: 3, noRoom: 0 },
  });
});

test('one CPU begins connections, and another one ends them', () => {
  expect(occupancy([5, 0, 5, 0], [], [0, 2, 0, 4]).IPv4).toEqual({ ...NONE, used: 3, halfOpen: 1 });
});

test('read between two counters of a CPU, it is never less than none', () => {
  expect(occupancy([4, 5, 2, 3])).toEqual({ IPv4: NONE, IPv6: NONE });
});

test('counters beyond 32 bits', () => {
  const many = 2n ** 40n;
  expect(occupancy([], [many + 3n, many, many, many, 0, many]).IPv6).toMatchObject({
    ...{ used: 3, halfOpen: 0, noRoom: 2 ** 40 },
  });
});
