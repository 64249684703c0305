// SPDX-License-Identifier: Apache-2.0
// How long no connection begins while connections are carried over to other maps: as long as a large table takes.
import { readdirSync, readFileSync, rmSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { HOLD_SECONDS, releaseFlows } from '../../../../src/engines/bpf/kernel/migration/carry.ts';
import { declaredMaps } from '../../../../src/engines/bpf/kernel/migration/changes.ts';
import { oldGenerations } from '../../../../src/engines/bpf/kernel/migration/generations.ts';
import { PORTS, passingTo } from '../../../../src/engines/bpf/kernel/migration/passing.ts';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import { mapPin, type PinnedMap } from '../../../../src/engines/bpf/layout/versions.ts';
import { fieldAt } from '../../../../src/engines/bpf/migration/fields.ts';
import { openObject, openPinnedMap } from '../../../../src/sys/native.ts';
import { packageRoot } from '../../../../src/sys/package.ts';
import { makeBpffs, type TestResource } from '../../native/support/resources.ts';
import { PacketDrive } from '../packet/support/packet-drive.ts';
import { mapsObject } from '../support/layouts.ts';
import { type Buckets, beginMigration, makeTable } from './pinned-table.ts';

/** Carried in three parts of 4,096 and in one. */
const BUCKETS: Buckets = [10_000, 100];
const GROWN: Buckets = [15_000, 200];
const PARTS = 3 + 1;

let bpffs: TestResource;
let bytes: Uint8Array;
let bpfRoot: string;
beforeAll(() => {
  bpffs = makeBpffs();
  bytes = mapsObject('present');
});
afterAll(() => bpffs?.release());
beforeEach(async () => {
  bpfRoot = join(bpffs.path, 'root');
  await makeTable(bpfRoot, bytes, BUCKETS);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(bpfRoot, { recursive: true });
});

/** Of a generation, as its programs read it. */
function holdIn(folder: string): number {
  const map = openPinnedMap(join(folder, mapPin('fl_packet')));
  const settings = map.get(encodeU32(0))!;
  map.close();
  const fields = declaredMaps([{ bytes }], {}).get('fl_packet')!.value;
  const { at } = fieldAt({ fields, bytes: settings.length }, /^hold_until$/)!;
  return new DataView(settings.buffer, settings.byteOffset).getUint16(at, true);
}

test('most is carried before it; each part after that renews it, and it ends when the links are replaced', async () => {
  const carry = await beginMigration(bpfRoot, bytes, GROWN);
  const folders = [pinFolder(bpfRoot).maps, ...oldGenerations(bpfRoot)];
  expect(folders).toHaveLength(2);
  const holds = () => folders.map(holdIn);
  const seen = new Set<number>();
  // Each look at the clock is a second later, and sees the hold until then.
  let second = 1_000n;
  vi.spyOn(process.hrtime, 'bigint').mockImplementation(() => {
    for (const hold of holds()) seen.add(hold);
    second += 1n;
    return second * 1_000_000_000n;
  });
  await carry.before('flows');
  const last = Number(second) + HOLD_SECONDS;
  expect(holds()).toEqual([last, last]);
  seen.delete(0);
  // Before the first part of what is left, with each one, and before the links; the last one is seen by nobody.
  expect(seen.size + 1).toBe(1 + PARTS + 1);
  carry.release();
  expect(holds()).toEqual([0, 0]);
  seen.clear();
  await carry.linked();
  expect([...seen]).toEqual([0]);
  expect(holds()).toEqual([0, 0]);
  await carry.after();
  expect(holdIn(folders[0]!)).toBe(0);
});

test('if the programs of the next table are given, those of the former call them, and nothing is held', async () => {
  const drive = new PacketDrive();
  const program = drive.object.program('fl_ingress');
  const carry = await beginMigration(bpfRoot, bytes, GROWN);
  const [former = ''] = oldGenerations(bpfRoot);
  const { maps } = pinFolder(bpfRoot);
  const element = (folder: string, name: PinnedMap, at = 0): readonly number[] => {
    const map = openPinnedMap(join(folder, mapPin(name)));
    const value = map.get(encodeU32(at));
    map.close();
    return value === undefined ? [] : [...new Uint32Array(value.buffer)];
  };
  await carry.before('flows', new Map([['fl_ingress', program]]));
  expect([former, maps].map(holdIn)).toEqual([0, 0]);
  expect([former, maps].map((folder) => element(folder, 'fl_phase'))).toEqual([
    [1, PORTS.even],
    [0, PORTS.odd],
  ]);
  expect(element(former, 'fl_next')).toEqual([program.info.id]);
  expect(element(maps, 'fl_next')).toEqual([]);
  carry.hold();
  expect([former, maps].map(holdIn)).toEqual([0, 0]);
  carry.release();
  await carry.linked();
  await carry.after();
  expect(element(maps, 'fl_phase')).toEqual([0, 0]);
  drive.close();
});

test("what an agent that was killed has begun goes on: no first packet is the former table's again", async () => {
  const drive = new PacketDrive();
  const next = new Map([['fl_ingress', drive.object.program('fl_ingress')]]);
  const killed = await beginMigration(bpfRoot, bytes, GROWN);
  await killed.before('flows', next);
  killed.close();
  const known = { bpfRoot, declared: declaredMaps([{ bytes }], {}) };
  passingTo(known, next)!.share();
  const [former = ''] = oldGenerations(bpfRoot);
  const phase = openPinnedMap(join(former, mapPin('fl_phase')));
  expect(phase.get(encodeU32(0))).toEqual(new Uint8Array([1, 0, 0, 0, PORTS.even, 0, 0, 0]));
  phase.close();
  drive.close();
});

test('programs that the kernel lets not be called: first packets are held', async () => {
  const drive = new PacketDrive();
  const other = openObject(readFileSync(join(packageRoot(), 'build/bpf/probe.bpf.o')), {
    name: 'fairlead',
  });
  for (const name of ['probe_refuse', 'probe_packet', 'probe_loop', 'probe_each'])
    other.setAutoload(name, false);
  other.load();
  const carry = await beginMigration(bpfRoot, bytes, GROWN);
  const [former = ''] = oldGenerations(bpfRoot);
  // All that one map has are of one type.
  const programs = [drive.object.program('fl_ingress'), other.program('probe_connect')] as const;
  await carry.before(
    'flows',
    new Map([
      ['fl_ingress', programs[0]],
      ['fl_egress', programs[1]],
    ]),
  );
  expect([former, pinFolder(bpfRoot).maps].map(holdIn)).not.toContain(0);
  carry.close();
  other.close();
  drive.close();
});

test('programs of an earlier version cannot call others: first packets are held', async () => {
  const carry = await beginMigration(bpfRoot, bytes, GROWN);
  const [former = ''] = oldGenerations(bpfRoot);
  unlinkSync(join(former, mapPin('fl_next')));
  await carry.before('flows', new Map());
  expect([former, pinFolder(bpfRoot).maps].map(holdIn)).not.toContain(0);
  carry.close();
});

test('a map whose fields are not known is not left open', () => {
  const { maps } = pinFolder(bpfRoot);
  const pin = mapPin('fl_packet');
  const known = { bpfRoot, declared: declaredMaps([], {}) };
  const open = (): number => readdirSync('/proc/self/fd').length;
  const before = open();
  for (let n = 0; n < 10; n += 1) expect(() => releaseFlows(known)).toThrow(join(maps, pin));
  expect(open()).toBe(before);
});
