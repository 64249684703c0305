// SPDX-License-Identifier: Apache-2.0
// From connections to buckets and back, and what the programs are told of the sizes.
import { expect, test } from 'vitest';
import {
  bucketsFor,
  capacityOf,
  connRodata,
  connSizes,
  sizesOf,
} from '../../../../../src/dataplane/bpf/conn/sizes.ts';
import { decodeU32 } from '../../../../../src/dataplane/bpf/maps/layout.ts';
import { randomOf, SEED } from '../../../../support/random.ts';

test(`a table has room for what it is made for, and no bucket too many, seed ${SEED}`, () => {
  const random = randomOf(SEED);
  const many = Array.from({ length: 2_000 }, () => 1 + Math.floor(random() * 2 ** 21));
  for (const connections of [1, 4, 5, 455, 65_536, 1_048_576, ...many]) {
    const buckets = bucketsFor(connections);
    expect(capacityOf(buckets), `${connections}`).toBeGreaterThanOrEqual(connections);
    if (buckets > 1) expect(capacityOf(buckets - 1), `${connections}`).toBeLessThan(connections);
  }
});

test('an agent that finds a table makes it for as many, and it stays as it is', () => {
  for (let buckets = 1; buckets < 5_000; buckets += 1) {
    expect(bucketsFor(capacityOf(buckets))).toBe(buckets);
  }
});

test('of both families, each by itself; the programs know how many buckets each has', () => {
  expect(connSizes(100)).toEqual({ ...sizesOf(4, 100), ...sizesOf(6, 100) });
  const told = connRodata({ ...sizesOf(4, 3), ...sizesOf(6, 70_000) });
  expect([told.conn_buckets4, told.conn_buckets6].map(decodeU32)).toEqual([3, 70_000]);
});

test('replies have room for two words of each connection, as reply_buckets() has it', () => {
  for (const [buckets, replies] of [
    [1, 2],
    [2, 5],
    [3, 7],
    [100, 250],
  ] as const) {
    expect(sizesOf(4, buckets)).toEqual({
      ...{ fl_client4: buckets, fl_conn4: 7 * buckets, fl_reply4: replies },
      fl_conn_traf4: 7 * buckets,
    });
  }
});
