// SPDX-License-Identifier: Apache-2.0
// The table of connections of another size: all connections are there afterwards, as they were, and nothing else is.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bucketsFor, capacityOf } from '../../../../src/engines/bpf/conn/sizes.ts';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
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
import { openPinnedMap } from '../../../../src/sys/native.ts';
import { packageRoot } from '../../../../src/sys/package.ts';
import { addonPath } from '../../native/support/child.ts';
import { makeBpffs, type TestResource } from '../../native/support/resources.ts';
import { auditAndEmpty } from '../conn/support/audit.ts';
import { FAMILIES } from '../conn/support/conn-table.ts';
import type { Connection } from '../conn/support/operation.ts';
import { mapsObject } from '../support/layouts.ts';
import {
  type Buckets,
  beginAll,
  beginMigration,
  carryObject,
  endMigration,
  makeTable,
  seen,
  sizesFor,
  withTable,
} from './pinned-table.ts';

const CONFIRMED: readonly Connection[] = Array.from({ length: 200 }, (_, id) => ({ id }));
const HALF_OPEN: readonly Connection[] = Array.from({ length: 40 }, (_, n) => ({ id: 1_000 + n }));
const ALL = [...CONFIRMED, ...HALF_OPEN];
const BUCKETS: Buckets = [90, 80];
const GROWN: Buckets = [300, 310];

let bpffs: TestResource;
let bytes: Uint8Array;
let bpfRoot: string;
let folder: string;
let expected: ReadonlyMap<Family, readonly unknown[]>;
const temporary = mkdtempSync(join(tmpdir(), 'fairlead-carry-'));
const object = join(temporary, 'maps.bpf.o');

beforeAll(() => {
  bpffs = makeBpffs();
  bytes = mapsObject('present');
  writeFileSync(object, bytes);
});
afterAll(() => {
  bpffs?.release();
  rmSync(temporary, { recursive: true });
});
beforeEach(async () => {
  bpfRoot = join(bpffs.path, 'root');
  folder = pinFolder(bpfRoot).maps;
  await makeTable(bpfRoot, bytes, BUCKETS);
  // As an agent of this version leaves it: the fields of each map are recorded.
  await migrate(BUCKETS);
  expected = new Map(
    FAMILIES.map((family) => [
      family,
      withTable({ folder, family }, (pinned) => {
        beginAll(pinned, CONFIRMED, HALF_OPEN);
        return ALL.map((one) => seen(pinned, one));
      }),
    ]),
  );
  expect([...expected.values()].flat()).not.toContain(undefined);
});
afterEach(() => rmSync(bpfRoot, { recursive: true }));

/** Its audit also compares what is counted with what is there. */
function expectAll(versions?: MapVersions): void {
  for (const family of FAMILIES) {
    withTable({ folder, family, versions }, (pinned) => {
      expect(ALL.map((one) => seen(pinned, one))).toEqual(expected.get(family));
      expect(auditAndEmpty(pinned.table)).toEqual([]);
    });
  }
  expect(oldGenerations(bpfRoot)).toEqual([]);
}

const migrate = async (buckets: Buckets, versions?: MapVersions): Promise<void> =>
  endMigration(await beginMigration(bpfRoot, bytes, buckets, versions));

function bucketsNow(): readonly number[] {
  return (['fl_client4', 'fl_client6'] as const).map((name) => {
    const map = openPinnedMap(join(folder, mapPin(name)));
    const { maxEntries } = map.info;
    map.close();
    return maxEntries;
  });
}

test.each<[string, Buckets]>([
  ['larger', GROWN],
  ['smaller', [70, 72]],
  ['larger for IPv4 alone', [300, BUCKETS[1]]],
  ['larger for IPv6 alone', [BUCKETS[0], 300]],
])('%s: all connections are there, and are counted', async (_, buckets) => {
  await migrate(buckets);
  expect(bucketsNow()).toEqual(buckets);
  expectAll();
});

const versionsOf = (of: (map: PinnedMap, present: number) => number): MapVersions =>
  Object.fromEntries(
    (Object.keys(CARRYING) as PinnedMap[]).map((map) => [
      map,
      of(map, parseMapPin(mapPin(map))?.version ?? 1),
    ]),
  ) as MapVersions;

test('another version of every map: all connections are there, and are counted', async () => {
  const raised = versionsOf((_, present) => present + 1);
  await migrate(BUCKETS, raised);
  expectAll(raised);
});

test('a table of the third version, which had two buckets for each key: the next one has as many, and so room', async () => {
  await migrate(
    BUCKETS,
    versionsOf((map, present) => (CARRYING[map] === 'table' ? 3 : present)),
  );
  const left = FAMILIES.map((family) => bucketsFor(connectionsLeft(bpfRoot, family) ?? 0));
  expect(left).toEqual(BUCKETS);
  await migrate(BUCKETS);
  expect(bucketsNow()).toEqual(BUCKETS);
  expectAll();
});

test('too small for what is there: refused before anything is touched', async () => {
  const before = readdirSync(bpfRoot);
  await expect(migrate([300, 20])).rejects.toMatchObject({
    code: 'OTHER_SIZES',
    message: expect.stringMatching(/^fl_client6 would have room for 20 entries, and needs \d+/),
  });
  expect(readdirSync(bpfRoot)).toEqual(before);
  expect(bucketsNow()).toEqual(BUCKETS);
  expectAll();
});

test.each(FAMILIES)(
  '%s: a connection that begins anew when links are replaced is kept',
  async (family) => {
    const one = CONFIRMED[0]!;
    const anew = { ...one, replyPort: 60_000 };
    const carry = await beginMigration(bpfRoot, bytes, GROWN);
    await endMigration(carry, () =>
      withTable({ folder, family }, ({ table }) => {
        table.now += 10;
        table.release(one);
        expect(table.begin(anew)).toBe('made');
      }),
    );
    withTable({ folder, family }, ({ table }) => {
      expect(table.find(anew)?.replyPort).toBe(60_000);
      expect(auditAndEmpty(table)).toEqual([]);
    });
  },
);

const child = fileURLToPath(new URL('../support/carry-child.mjs', import.meta.url));

function killedAt(killAt: string, buckets: Buckets): void {
  const sizes = sizesFor(buckets);
  const input = { bpfRoot, maps: object, table: carryObject, sizes, killAt };
  const modules = join(packageRoot(), 'build/js');
  const args = [child, modules, addonPath, JSON.stringify(input)];
  const { stdout, stderr, signal } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect({ signal, last: stdout.trim().split('\n').at(-1), stderr }).toEqual({
    ...{ signal: 'SIGKILL', last: killAt, stderr: '' },
  });
}

const STEPS = [
  ...['preparing', 'making', 'pinning fl_client4', 'filling fl_client4', 'loading'],
  ...['replacing maps', 'replacing', 'replaced maps', 'carrying sockets', 'carrying flows'],
  ...['replacing links', 'carrying the rest', 'carrying the last', 'removing old maps', 'done'],
];

describe('an agent that is killed', () => {
  test.each(STEPS)('%s: the next one ends it', async (step) => {
    killedAt(step, GROWN);
    await migrate(GROWN);
    expectAll();
  });

  test.each(['replacing', 'replaced maps'])('%s: the next one has room for as many', (step) => {
    killedAt(step, BUCKETS.map((buckets) => buckets + 1) as unknown as Buckets);
    for (const [at, family] of FAMILIES.entries())
      expect(connectionsLeft(bpfRoot, family)).toBeGreaterThanOrEqual(capacityOf(BUCKETS[at]!));
  });

  test('its maps are too small for what it had begun to carry: refused', async () => {
    killedAt('replaced maps', GROWN);
    await expect(migrate([300, 20])).rejects.toMatchObject({ code: 'OTHER_SIZES' });
    await migrate(GROWN);
    expectAll();
  });

  test('again and again, with other sizes each time', async () => {
    killedAt('replacing links', GROWN);
    killedAt('carrying flows', [150, 310]);
    killedAt('removing old maps', [400, 90]);
    await migrate([200, 210]);
    expect(bucketsNow()).toEqual([200, 210]);
    expectAll();
  });
});
