// SPDX-License-Identifier: Apache-2.0
// From connections to buckets and back, and what the programs are told of the sizes.
import { expect, test } from 'vitest';
import { LARGEST_TABLE } from '../../../../../src/config/settings/programs.ts';
import { FIRST_CONNECTIONS } from '../../../../../src/engines/bpf/conn/growth.ts';
import {
  bucketsFor,
  capacityOf,
  connRodata,
  connSizes,
  indexMaskOf,
  sizesOf,
} from '../../../../../src/engines/bpf/conn/sizes.ts';
import { CONN_SIZE, CONN_SLOTS } from '../../../../../src/engines/bpf/layout/conn-layout.ts';
import { decodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import { randomOf, SEED } from '../../../../support/random.ts';

test(`a table has room for what it is made for, and no bucket too many, seed ${SEED}`, () => {
  const random = randomOf(SEED);
  const many = Array.from({ length: 2_000 }, () => 1 + Math.floor(random() * 2 ** 21));
  for (const connections of [1, 4, 5, 455, 65_536, 1_048_576, ...many]) {
    const buckets = bucketsFor(connections);
    expect(capacityOf(buckets), `${connections}`).toBeGreaterThanOrEqual(connections);
    if (buckets > 2) expect(capacityOf(buckets - 1), `${connections}`).toBeLessThan(connections);
  }
});

test('an agent that finds a table makes it for as many, and it stays as it is', () => {
  for (let buckets = 2; buckets < 5_000; buckets += 1) {
    expect(bucketsFor(capacityOf(buckets))).toBe(buckets);
  }
});

test('of both families, each by itself; the programs know how many buckets each has', () => {
  expect(connSizes(100)).toEqual({ ...sizesOf(4, 100), ...sizesOf(6, 100) });
  const told = connRodata({ ...sizesOf(4, 3), ...sizesOf(6, 70_000) });
  expect([told.conn_buckets4, told.conn_buckets6].map(decodeU32)).toEqual([3, 70_000]);
  expect([told.conn_index_mask4, told.conn_index_mask6].map(decodeU32)).toEqual([31, 2 ** 19 - 1]);
});

test('each number of a record fits in its bits, and the largest table leaves four of 29 for the tag', () => {
  for (const buckets of [1, 2, 8, 9, 74_898, 74_899, 230_457, bucketsFor(LARGEST_TABLE)]) {
    const mask = indexMaskOf(buckets);
    expect((buckets * CONN_SLOTS - 1) & mask, `${buckets}`).toBe(buckets * CONN_SLOTS - 1);
    expect(mask, `${buckets}`).toBeLessThan(2 * buckets * CONN_SLOTS);
    expect(mask, `${buckets}`).toBeLessThan(2 ** 25);
  }
});

test('replies have room for two words of each connection, as reply_buckets() has it', () => {
  for (const [buckets, replies] of [
    [2, 4],
    [3, 7],
    [8, 19],
    [100, 237],
  ] as const) {
    expect(sizesOf(4, buckets)).toEqual({
      ...{ fl_client4: buckets, fl_conn4: 7 * buckets, fl_reply4: replies },
      fl_conn_traf4: 7 * buckets,
    });
  }
});

test.each([
  [4, 1_000_000, 122],
  [6, 1_000_000, 197],
  [4, FIRST_CONNECTIONS, 8],
] as const)('IPv%s: a table for %i connections takes at most %f MB', (digit, connections, mb) => {
  const sizes = sizesOf(digit, bucketsFor(connections));
  const bytes = {
    [`fl_client${digit}`]: CONN_SIZE.client_bucket,
    [`fl_conn${digit}`]: CONN_SIZE[`conn${digit}`],
    [`fl_conn_traf${digit}`]: CONN_SIZE.conn_traffic,
    [`fl_reply${digit}`]: CONN_SIZE.reply_bucket,
  };
  const all = Object.entries(sizes).reduce((sum, [map, n]) => sum + n * (bytes[map] ?? 0), 0);
  expect(all / 1e6).toBeLessThanOrEqual(mb);
  expect(Object.keys(sizes).toSorted()).toEqual(Object.keys(bytes).toSorted());
});
