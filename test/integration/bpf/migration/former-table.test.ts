// SPDX-License-Identifier: Apache-2.0
// An update from the layout that the table of connections had before: each connection is there afterwards, as it was.
import { createHash } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { proofOf } from '../../../../src/engines/bpf/conn/proof.ts';
import { type ConnMemory, readConns } from '../../../../src/engines/bpf/conn/reader.ts';
import { bucketsFor, capacityOf } from '../../../../src/engines/bpf/conn/sizes.ts';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { declaredMaps } from '../../../../src/engines/bpf/kernel/migration/changes.ts';
import { oldGenerations } from '../../../../src/engines/bpf/kernel/migration/generations.ts';
import { connectionsLeft } from '../../../../src/engines/bpf/kernel/open-growing.ts';
import {
  type MapVersions,
  mapPin,
  type PinnedMap,
  parseMapPin,
} from '../../../../src/engines/bpf/layout/versions.ts';
import { CARRYING } from '../../../../src/engines/bpf/migration/policy.ts';
import type { Family } from '../../../../src/model/types.ts';
import { type BpfMap, openPinnedMap } from '../../../../src/sys/native.ts';
import { makeBpffs, type TestResource } from '../../native/support/resources.ts';
import { auditAndEmpty } from '../conn/support/audit.ts';
import { FAMILIES, HALF, suffixOf } from '../conn/support/conn-table.ts';
import { type Connection, recordOf, SECRET } from '../conn/support/operation.ts';
import { mapsObject } from '../support/layouts.ts';
import {
  type Buckets,
  beginMigration,
  endMigration,
  makeTable,
  withTable,
} from './pinned-table.ts';

const SLOTS = 7;
const TRAFFIC_WORDS = 8;
const TABLE = (Object.keys(CARRYING) as PinnedMap[]).filter((map) => CARRYING[map] === 'table');
const VERSIONS = Object.fromEntries(
  (Object.keys(CARRYING) as PinnedMap[]).map((map) => [
    map,
    TABLE.includes(map) ? 2 : (parseMapPin(mapPin(map))?.version ?? 1),
  ]),
) as MapVersions;

let bpffs: TestResource;
let former: Uint8Array;
let present: Uint8Array;
let bpfRoot: string;
let folder: string;
let opened: BpfMap[] = [];

beforeAll(() => {
  bpffs = makeBpffs();
  former = mapsObject('former');
  present = mapsObject('present');
});
afterAll(() => bpffs?.release());
beforeEach(() => {
  bpfRoot = join(bpffs.path, 'root');
  folder = pinFolder(bpfRoot).maps;
});
afterEach(() => {
  for (const map of opened) map.close();
  opened = [];
  rmSync(bpfRoot, { recursive: true, force: true });
});

/** As an agent of the version before leaves it: the fields of each map are recorded. */
async function makeFormer(buckets: Buckets): Promise<void> {
  await makeTable(bpfRoot, former, buckets, VERSIONS);
  await endMigration(await beginMigration(bpfRoot, former, buckets, VERSIONS));
}

function pinned(map: PinnedMap, versions?: MapVersions): BpfMap {
  const one = openPinnedMap(join(folder, mapPin(map, versions)));
  opened.push(one);
  return one;
}

/** Every fifth is masqueraded, as long as there are ports. */
const isMasqueraded = (id: number): boolean => id % 5 === 0 && id < 60_000;
const isHalfOpen = (id: number): boolean => id % 10 === 0;
const connectionOf = (id: number): Connection => ({
  id,
  masquerade: isMasqueraded(id),
  own: false,
});

/** Five of seven slots of each bucket: where a record is does not matter to what carries it. */
function fill(family: Family, count: number): void {
  const digit = suffixOf(family);
  const [words, records, traffic] = (
    [`fl_client${digit}`, `fl_conn${digit}`, `fl_conn_traf${digit}`] as const
  ).map((map) => new Uint32Array(pinned(map, VERSIONS).mmap()));
  const proof = proofOf(family, SECRET);
  for (let id = 0; id < count; id += 1) {
    const bucket = Math.floor(id / 5);
    const index = SLOTS * bucket + (id % 5);
    const record = new Uint32Array(recordOf(connectionOf(id), family, 900).buffer);
    record[1] = (record[1] ?? 0) | (proof(record) << 16);
    records?.set(record, index * record.length);
    traffic?.set(trafficOf(id), TRAFFIC_WORDS * index);
    if (words !== undefined) words[(SLOTS + 1) * bucket + (id % 5)] = wordOf(id);
  }
  const counts = new BigUint64Array(pinned('fl_conn_count').mmap());
  const row = 8 * Number(family === 'IPv6');
  counts[row] = BigInt(count);
  counts[row + 2] = BigInt(Math.ceil(count / 10));
}

const wordOf = (id: number): number => 1 + id + (isHalfOpen(id) ? HALF : 0);
/** Packets and bytes of both sides, 64 bits each. */
const trafficOf = (id: number): number[] => [200 + id, 3, 7 * id, 5, 3 + id, 1, id, 6];
const countsOf = (id: number): number[] => [
  200 + id + 3 * 2 ** 32,
  7 * id + 5 * 2 ** 32,
  3 + id + 2 ** 32,
  id + 6 * 2 ** 32,
];

const memoryOf = (map: BpfMap) => ({
  map: (offset: number, length: number) => map.mmap(offset, length),
  unmap: (memory: ArrayBuffer) => map.munmap(memory),
});

function tableOf(family: Family): ConnMemory {
  const digit = suffixOf(family);
  const [client, conn] = [pinned(`fl_client${digit}`), pinned(`fl_conn${digit}`)];
  return {
    ...{ family, buckets: client.info.maxEntries, proof: proofOf(family, SECRET) },
    ...{ client: memoryOf(client), conn: memoryOf(conn) },
    traffic: memoryOf(pinned(`fl_conn_traf${digit}`)),
  };
}

/** By id, of what is wrong with it; `missing` of those that are not there. */
function wrongIn(family: Family, count: number): readonly string[] {
  const wrong: string[] = [];
  const isSeen = new Uint8Array(count);
  const steps = readConns(tableOf(family), (record) => {
    const id = record.backendId;
    if (isSeen[id] !== 0) wrong.push(`${id} is there twice`);
    isSeen[id] = 1;
    if (record.isHalfOpen !== isHalfOpen(id)) wrong.push(`${id} is half-open, or confirmed`);
    if (record.isMasqueraded !== isMasqueraded(id)) wrong.push(`${id} is masqueraded, or not`);
    if (record.traffic.join() !== countsOf(id).join())
      wrong.push(`${id}: ${record.traffic.join()}`);
  });
  for (;;) if (steps.next().done === true) break;
  const missing = isSeen.reduce((sum, seen) => sum + 1 - seen, 0);
  return missing === 0 ? wrong : [...wrong, `${missing} are missing`];
}

test('the layout before is the one that its pins had', () => {
  const known = readFileSync(new URL('../support/layouts.txt', import.meta.url), 'utf8').split(
    '\n',
  );
  const lines = [...declaredMaps([{ bytes: former }], {})]
    .filter(([map]) => TABLE.includes(map))
    .map(([map, { key, value }]) => {
      const digest = createHash('sha256').update(`${key}|${value}`).digest('hex');
      return `${mapPin(map, VERSIONS)} ${digest.slice(0, 16)}`;
    });
  expect(lines).toHaveLength(8);
  expect(lines.filter((line) => !known.includes(line))).toEqual([]);
});

test('an update with 300,000 connections loses none, and counts them', async () => {
  const counts = [300_000, 50_000] as const;
  // It grows when it is half full, so it has room for twice as many.
  const buckets: Buckets = [bucketsFor(600_000), bucketsFor(100_000)];
  await makeFormer(buckets);
  for (const [at, family] of FAMILIES.entries()) fill(family, counts[at]!);
  const left = FAMILIES.map((family) => connectionsLeft(bpfRoot, family)!);
  expect(left).toEqual(buckets.map(capacityOf));
  const now = left.map(bucketsFor) as unknown as Buckets;
  await endMigration(await beginMigration(bpfRoot, present, now));
  for (const [at, family] of FAMILIES.entries()) {
    expect(wrongIn(family, counts[at]!)).toEqual([]);
    withTable({ folder, family }, ({ table }) => {
      for (let id = 0; id < counts[at]!; id += 97) {
        const index = table.find(connectionOf(id))?.index;
        expect(index, `${id}`).toBeDefined();
        expect(table.findReply(connectionOf(id))?.index, `reply of ${id}`).toBe(index);
      }
    });
  }
  expect(oldGenerations(bpfRoot)).toEqual([]);
});

test.each(FAMILIES)('%s: what is carried ends as what has begun there', async (family) => {
  await makeFormer([400, 400]);
  fill(family, 1_500);
  await endMigration(await beginMigration(bpfRoot, present, [400, 400]));
  withTable({ folder, family }, ({ table }) => expect(auditAndEmpty(table)).toEqual([]));
});

test('too small a table for what is in the one before is refused', async () => {
  await makeFormer([400, 400]);
  fill('IPv4', 1_500);
  await expect(beginMigration(bpfRoot, present, [300, 400])).rejects.toMatchObject({
    code: 'OTHER_SIZES',
    message: expect.stringMatching(/^fl_client4 would have room for 300 entries, and needs 330/),
  });
  expect(connectionsLeft(bpfRoot, 'IPv4')).toBe(capacityOf(400));
});

test('so it is after an agent that was killed before it carried anything', async () => {
  await makeFormer([400, 400]);
  fill('IPv4', 1_500);
  const killed = await beginMigration(bpfRoot, present, [350, 400]);
  killed.close();
  expect(connectionsLeft(bpfRoot, 'IPv4')).toBe(capacityOf(400));
  await expect(beginMigration(bpfRoot, present, [300, 400])).rejects.toMatchObject({
    code: 'OTHER_SIZES',
  });
});
