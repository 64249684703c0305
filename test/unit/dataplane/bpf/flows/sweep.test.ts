// SPDX-License-Identifier: Apache-2.0
// In how many calls the tables of flows are swept: each call walks all buckets of its table, and must not take long.
import { beforeEach, expect, test } from 'vitest';
import { createSweep, type Sweep } from '../../../../../src/dataplane/bpf/flows/sweep/sweep.ts';
import { FLOW_TABLES, PACKET_SIZE } from '../../../../../src/dataplane/bpf/maps/packet-layout.ts';

const CAPACITY = 262_144;
const PER_CALL = 65_536;
const SLICES = CAPACITY / PER_CALL;

/** Entries of each table, as many in each slice. */
let entries: number[];
let seen: bigint;
let calls: { table: number; slice: number; slices: number }[];
let refusedTable: number | undefined;
let capacity: number;
let sweep: Sweep;

function run(context: Uint8Array): number {
  const at = new DataView(context.buffer, context.byteOffset);
  const [table, slice, slices] = [at.getUint8(0), at.getUint32(4, true), at.getUint32(8, true)];
  calls.push({ table, slice, slices });
  if (table === refusedTable) return 1;
  seen += BigInt(Math.floor((entries[table] ?? 0) / slices));
  return 0;
}

function swept(): Uint8Array {
  const bytes = new Uint8Array(PACKET_SIZE.swept);
  new DataView(bytes.buffer).setBigUint64(0, seen, true);
  return bytes;
}

/** @returns the slices of each table's calls */
function round(): number[] {
  calls = [];
  while (!sweep.step());
  return FLOW_TABLES.map((_, index) => calls.filter(({ table }) => table === index).length);
}

function start(): void {
  sweep = createSweep({ run, swept, capacity: () => capacity });
}

const each = (calls: number): number[] => FLOW_TABLES.map(() => calls);

beforeEach(() => {
  entries = each(0);
  seen = 0n;
  calls = [];
  refusedTable = undefined;
  capacity = CAPACITY;
  start();
});

test('as if they were full the first time, then in one call as long as they have few entries', () => {
  expect(sweep.steps).toBe(FLOW_TABLES.length * SLICES);
  expect(round()).toEqual(each(SLICES));
  expect(sweep.steps).toBe(FLOW_TABLES.length);
  expect(round()).toEqual(each(1));
});

test.each([
  [0, 1],
  [16_384, 1],
  [16_388, 2],
  [40_000, 3],
  [CAPACITY, SLICES],
])('after a round that has met %i entries of a table: %i calls', (met, expected) => {
  entries[3] = met;
  round();
  expect(round()).toEqual(each(1).with(3, expected));
  expect(sweep.used().get('fl_new_flow6')).toBeCloseTo(met, -1);
});

test('a large table has more than one call, because it may have filled since', () => {
  capacity = 4 * CAPACITY;
  start();
  round();
  expect(round()).toEqual(each(4));
});

test('a round has as many calls as it says before it, whatever it meets: their pauses are those of a round', () => {
  for (const met of [0, CAPACITY, 0]) {
    entries = each(met);
    const { steps } = sweep;
    expect(round().reduce((sum, calls) => sum + calls, 0)).toBe(steps);
  }
});

test('all slices of one round are of the same number, and each has its call', () => {
  entries[0] = CAPACITY;
  round();
  entries[0] = 0;
  round();
  const ofFirst = calls.filter(({ table }) => table === 0);
  expect(ofFirst).toEqual(
    Array.from({ length: SLICES }, (_, slice) => ({ table: 0, slice, slices: SLICES })),
  );
});

test('a refused call of the last table ends the round', () => {
  refusedTable = FLOW_TABLES.length - 1;
  expect(() => {
    for (let step = 0; step < FLOW_TABLES.length * SLICES; step++) sweep.step();
  }).toThrow('fl_sweep returned 1');
  for (let slice = 1; slice < SLICES; slice++) expect(() => sweep.step()).toThrow();
  refusedTable = undefined;
  expect(round()).toEqual(each(1).with(FLOW_TABLES.length - 1, SLICES));
});

test('a refused call is told, and the next ones are made', () => {
  round();
  refusedTable = 1;
  calls = [];
  sweep.step();
  expect(() => sweep.step()).toThrow('fl_sweep returned 1');
  sweep.step();
  expect(calls.map(({ table }) => table)).toEqual([0, 1, 2]);
});
