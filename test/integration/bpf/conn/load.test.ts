// SPDX-License-Identifier: Apache-2.0
// How full a table of connections gets, and what a flood of half-open ones does to it. The same numbers give the same hashes each time.
import { afterEach, describe, expect, test } from 'vitest';
import { TICKS_PER_SECOND } from '../../../../src/engines/bpf/layout/conn-layout.ts';
import { auditAndEmpty, countsOf, slotsOf } from './support/audit.ts';
import { ConnTable, FAMILIES, HALF, SLOTS } from './support/conn-table.ts';
import type { Connection } from './support/operation.ts';

const LOAD = 0.8;
const CROWDED = 0.85;
const FULL_BUCKETS = 6_000;
const FLOODED_BUCKETS = 400;
const MOST_HALF = 3;
const SMALL_BUCKETS = 60;
const SILENT_SECONDS = 600;
/** Each client has the port of its own. */
const numbered = (count: number, from = 0): readonly Connection[] =>
  Array.from({ length: count }, (_, n) => ({ id: from + n, masquerade: false }));

let table: ConnTable;
/** As one that both sides have confirmed. */
const begun = (one: Connection) => table.begin({ ...one, state: 'established' }, { half: false });
afterEach(() => table.close());

describe.each(FAMILIES)('%s', (family) => {
  const establish = (connections: readonly Connection[]): readonly Connection[] =>
    connections.filter((one) => table.begin(one) === 'made' && table.confirm(one));

  test('less than one of 10,000 finds no room until 80 % are taken', () => {
    table = new ConnTable(family, FULL_BUCKETS);
    const all = numbered(Math.floor(LOAD * FULL_BUCKETS * SLOTS));
    const without = all.filter((one) => table.begin(one, { half: false }) !== 'made');
    expect(without.length).toBeLessThan(all.length / 10_000);
  });

  test('half-open ones are spread over all buckets: none of five for six buckets is evicted', () => {
    table = new ConnTable(family, FULL_BUCKETS);
    const all = numbered((FULL_BUCKETS / 6) * 5);
    expect(all.filter((one) => table.begin(one) !== 'made')).toEqual([]);
    expect(countsOf(table.object, family).evicted).toBe(0);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('ten times as many half-open ones as there is room for evict only their like', () => {
    table = new ConnTable(family, FLOODED_BUCKETS);
    const room = FLOODED_BUCKETS * SLOTS;
    const established = establish(numbered(room / 2));
    expect(established).toHaveLength(room / 2);
    const flood = numbered(10 * room, 100_000);
    const without = flood.filter((one) => {
      table.now += 1;
      return table.begin(one) !== 'made';
    });
    process.stdout.write(`${family}: of ${flood.length} ${without.length} find no room\n`);
    expect(without.length).toBeLessThan(flood.length / 1_000);
    expect(established.filter((one) => table.find(one)?.isHalf !== false)).toEqual([]);
    const half = slotsOf(table.object, family).filter(({ word }) => word & HALF);
    const inBuckets = new Map<number, number>();
    for (const { index } of half) {
      const bucket = Math.floor(index / SLOTS);
      inBuckets.set(bucket, (inBuckets.get(bucket) ?? 0) + 1);
    }
    expect(Math.max(...inBuckets.values())).toBeLessThanOrEqual(MOST_HALF);
    const { claimed, evicted } = countsOf(table.object, family);
    expect(evicted + half.length).toBe(claimed - established.length);
    const youngest = flood.slice(-FLOODED_BUCKETS);
    expect(youngest.filter((one) => !table.find(one)).length).toBeLessThan(youngest.length / 20);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('a full table without a sweep: those that are over give their slots, living ones do not', () => {
    table = new ConnTable(family, SMALL_BUCKETS);
    table.setTimeouts({ tcpEstablished: SILENT_SECONDS });
    const room = SMALL_BUCKETS * SLOTS;
    const old = numbered(room / 2).filter((one) => begun(one) === 'made');
    table.now += TICKS_PER_SECOND * SILENT_SECONDS;
    const living = numbered(20 * room, 100_000).filter((one) => begun(one) === 'made');
    const later = numbered(100, 200_000);
    expect(later.filter((one) => begun(one) !== 'no room')).toEqual([]);
    table.now += TICKS_PER_SECOND;
    const served = later.filter((one) => begun(one) === 'made');
    expect(served.length).toBeGreaterThan(later.length * 0.9);
    expect([...living, ...served].filter((one) => !table.find(one))).toEqual([]);
    const { claimed, released, evicted } = countsOf(table.object, family);
    expect([claimed - released, evicted]).toEqual([old.length + living.length, served.length]);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('half-open ones take three slots of each bucket that is full of those that are over', () => {
    table = new ConnTable(family, SMALL_BUCKETS);
    table.setTimeouts({ tcpEstablished: SILENT_SECONDS });
    const old = numbered(20 * SMALL_BUCKETS * SLOTS).filter((one) => begun(one) === 'made');
    table.now += TICKS_PER_SECOND * (SILENT_SECONDS + 1);
    const flood = numbered(10 * SMALL_BUCKETS, 100_000);
    expect(flood.filter((one) => table.begin({ ...one, state: 'established' }) !== 'made')).toEqual(
      [],
    );
    const half = slotsOf(table.object, family).filter(({ word }) => word & HALF);
    expect(half).toHaveLength(MOST_HALF * SMALL_BUCKETS);
    expect(old.filter((one) => table.find(one))).toHaveLength((SLOTS - MOST_HALF) * SMALL_BUCKETS);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('under a flood connections go on to be made until 85 % are confirmed', () => {
    table = new ConnTable(family, FLOODED_BUCKETS);
    const all = numbered(Math.floor(CROWDED * FLOODED_BUCKETS * SLOTS));
    for (const one of numbered(10 * FLOODED_BUCKETS, 100_000)) table.begin(one);
    let withoutRoom = 0;
    for (const [n, one] of all.entries()) {
      table.now += 1;
      for (const other of numbered(4, 200_000 + 4 * n)) table.begin(other);
      if (establish([one]).length === 0) withoutRoom += 1;
    }
    process.stdout.write(`${family}: of ${all.length} ${withoutRoom} find no room\n`);
    expect(withoutRoom).toBeLessThanOrEqual(all.length / 500);
    expect(auditAndEmpty(table)).toEqual([]);
  });
});
