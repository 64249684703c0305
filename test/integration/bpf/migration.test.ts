// SPDX-License-Identifier: Apache-2.0
// A step of versions of every pinned map: a layout with more and wider fields, and back. What both layouts have is the same
// before, in between, and after.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadLayer } from '../../../src/engines/bpf/kernel/loader/load.ts';
import { pinFolder } from '../../../src/engines/bpf/kernel/loader/pins.ts';
import { closeAll } from '../../../src/engines/bpf/kernel/loader/undo.ts';
import { declaredMaps } from '../../../src/engines/bpf/kernel/migration/changes.ts';
import { migrateMaps } from '../../../src/engines/bpf/kernel/migration/migrate.ts';
import {
  type MapVersions,
  mapPin,
  type PinnedMap,
  parseMapPin,
} from '../../../src/engines/bpf/layout/versions.ts';
import { entriesOf, TYPE } from '../../../src/engines/bpf/migration/entries.ts';
import { parseFields } from '../../../src/engines/bpf/migration/fields.ts';
import { CARRYING } from '../../../src/engines/bpf/migration/policy.ts';
import { type BpfMap, openPinnedMap } from '../../../src/sys/native.ts';
import { makeBpffs, type TestResource } from '../native/support/resources.ts';
import { carryObject } from './migration/pinned-table.ts';
import { mapsObject } from './support/layouts.ts';

const NAMES = (Object.keys(CARRYING) as PinnedMap[]).filter(
  // Declared with its program; only programs can write those of sockets; and of no other generation.
  (name) => name !== 'fl_swept' && !['storage', 'own'].includes(CARRYING[name]),
);
const ENTRIES = 20;

const versionOf = (name: PinnedMap): number => parseMapPin(mapPin(name))?.version ?? 1;
const versions = (raise: number): MapVersions =>
  Object.fromEntries(
    (Object.keys(CARRYING) as PinnedMap[]).map((name) => [name, versionOf(name) + raise]),
  ) as MapVersions;

type Fields = Readonly<Record<string, string>>;
type Contents = ReadonlyMap<PinnedMap, readonly Fields[]>;

let bpffs: TestResource;
let before: Contents;
let between: Contents;
let after: Contents;
const lost: string[] = [];

beforeAll(async () => {
  bpffs = makeBpffs();
  const [present, other] = [mapsObject('present'), mapsObject('other')];
  const bpfRoot = bpffs.path;
  const folder = pinFolder(bpfRoot);
  mkdirSync(folder.maps, { recursive: true });
  const layer = { name: 'maps', objects: [{ bytes: present, rodata: [{}] }], hooks: [] };
  const { maps } = await loadLayer(layer, { folder, sizes: {}, versions: versions(0) }, []);
  const declared = declaredMaps([{ bytes: present }], {});
  for (const name of NAMES) fillMap(maps.get(name)!, declared.get(name)!);
  closeAll(maps.values());
  await migrate(present, 0);
  before = contentsOf(present, 0);
  await migrate(other, 1);
  between = contentsOf(other, 1);
  await migrate(present, 0);
  after = contentsOf(present, 0);
});
afterAll(() => bpffs?.release());

async function migrate(object: Uint8Array, raise: number): Promise<void> {
  const layer = { name: 'maps', objects: [{ bytes: object, rodata: [{}] }], hooks: [] };
  const carry = await migrateMaps({
    ...{ bpfRoot: bpffs.path, layers: [layer], sizes: {}, versions: versions(raise) },
    storage: {
      object: () => {
        throw new Error('this kernel cannot');
      },
      lost: (map, reason) => lost.push(`${map}: ${reason}`),
    },
    table: () => readFileSync(carryObject),
  });
  await carry.before('sockets');
  await carry.before('flows');
  await carry.linked();
  await carry.after();
}

/** Random values in every field but padding. */
function fillMap(map: BpfMap, fields: { readonly key: string; readonly value: string }): void {
  const perCpu =
    map.info.type === TYPE.percpuArray ? map.get(new Uint8Array(4))!.length : undefined;
  for (let index = 1; index <= Math.min(ENTRIES, map.info.maxEntries); index += 1) {
    const isArray = map.info.type === TYPE.array || perCpu !== undefined;
    const key = isArray
      ? new Uint8Array(Uint32Array.of(index - 1).buffer)
      : random(map.info.keySize, fields.key, index);
    if (map.info.type === TYPE.lpmTrie) key.set([160, 0, 0, 0]);
    map.put(key, random(perCpu ?? map.info.valueSize, fields.value, index));
  }
}

function random(size: number, fields: string, seed: number): Uint8Array {
  const bytes = new Uint8Array(size);
  for (const [position, { name, bit, bits }] of parseFields(fields).entries()) {
    // A hold is released at the end.
    if (/pad\d*$|^hold_until$/.test(name)) continue;
    for (let at = bit; at < bit + bits; at += 1) {
      const isSet = (seed * 7919 + position * 104_729 + at * 31) % 5 < 2;
      if (isSet) bytes[at >> 3] = bytes[at >> 3]! | (1 << (at & 7));
    }
  }
  return bytes;
}

function contentsOf(object: Uint8Array, raise: number): Contents {
  const declared = declaredMaps([{ bytes: object }], {});
  return new Map(
    NAMES.map((name) => {
      const map = openPinnedMap(join(bpffs.path, 'maps', mapPin(name, versions(raise))));
      const { key, value } = declared.get(name)!;
      const rows = [...entriesOf(map)].map((entry) => ({
        ...read(entry.key, key, 'key'),
        ...read(entry.value, value, 'value'),
      }));
      map.close();
      return [name, rows.sort((one, two) => (JSON.stringify(one) < JSON.stringify(two) ? -1 : 1))];
    }),
  );
}

/** Numbers, however wide. */
function read(bytes: Uint8Array, fields: string, side: string): Fields {
  return Object.fromEntries(
    parseFields(fields)
      .filter(({ name }) => !/pad\d*$/.test(name))
      .map(({ name, bit, bits }) => {
        let number = 0n;
        for (let at = bits - 1; at >= 0; at -= 1) {
          const isSet = (bytes[(bit + at) >> 3]! >> ((bit + at) & 7)) & 1;
          number = number * 2n + BigInt(isSet);
        }
        return [`${side} ${name}`, String(number)];
      }),
  );
}

const withoutAdded = (rows: readonly Fields[]): readonly Fields[] =>
  rows
    .map((row) => {
      const kept = Object.entries(row).filter(([name]) => !/added$/.test(name));
      return Object.fromEntries(kept.sort(([one], [two]) => (one < two ? -1 : 1)));
    })
    .sort((one, two) => (JSON.stringify(one) < JSON.stringify(two) ? -1 : 1));

test.each(NAMES)('%s', (name) => {
  const [old, later, again] = [before, between, after].map((contents) => contents.get(name)!);
  expect(old!.length).toBeGreaterThan(0);
  // Nothing converts a table of connections, of whose maps one has another layout; carry-table.test.ts has the others.
  if (CARRYING[name] === 'empty' || CARRYING[name] === 'table') {
    expect([later, again]).toEqual([[], []]);
    return;
  }
  expect(withoutAdded(later!)).toEqual(withoutAdded(old!));
  expect(again).toEqual(old);
  const added = later!.flatMap((row) => Object.entries(row).filter(([key]) => /added$/.test(key)));
  expect(added.filter(([, value]) => value !== '0')).toEqual([]);
});

test('records of sockets that no program can carry over stay behind, and everything else does not', () => {
  expect(new Set(lost)).toEqual(
    new Set(['fl_sock: Error: this kernel cannot', 'fl_udp_sock: Error: this kernel cannot']),
  );
});

test('nothing else is left', () => {
  // The kernel's own files are in the root of every bpf file system.
  const folders = readdirSync(bpffs.path).filter((name) => !name.endsWith('.debug'));
  expect(folders.sort()).toEqual(['layouts', 'maps']);
  const versioned = readdirSync(join(bpffs.path, 'maps')).map((pin) => {
    const { map, version } = parseMapPin(pin)!;
    return version === versionOf(map);
  });
  expect(versioned.every(Boolean)).toBe(true);
});
