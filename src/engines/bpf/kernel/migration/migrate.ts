// SPDX-License-Identifier: Apache-2.0
// Maps of another layout or another size than this version wants: new ones are made beside them and filled, all programs
// are loaded with those once, and only then they take the place of the old ones. Programs go on using the old maps until
// their links are replaced; what they write meanwhile is carried over, too (ADR 30).
import { join } from 'node:path';
import type { BpfMap } from '../../../../sys/native.ts';
import * as native from '../../../../sys/native.ts';
import { asFairleadError } from '../../errors.ts';
import type { Layer, LayerObject } from '../../layer.ts';
import {
  isPinnedMap,
  type MapVersions,
  mapPin,
  type PinnedMap,
  parseMapPin,
} from '../../layout/versions.ts';
import { CARRYING } from '../../migration/policy.ts';
import { checkRoom, type OpenChange } from '../../migration/room.ts';
import { loadLayer } from '../loader/load.ts';
import { pathsOf, pinFolder, pinsIn } from '../loader/pins.ts';
import { takeBack, type Undo } from '../loader/undo.ts';
import { type Carry, carryOver, NOTHING_TO_CARRY } from './carry.ts';
import { type Change, declaredMaps, fieldsOf, findChanges, type Known } from './changes.ts';
import type { TablePart } from './conn-table-carry.ts';
import {
  beginGeneration,
  oldGenerations,
  recoverGenerations,
  removeGeneration,
  replaceGeneration,
} from './generations.ts';
import { closePairs, fillPair, openPairs } from './pairs.ts';
import { readChecked, writeChecked, writeFields } from './records.ts';
import type { StoragePart } from './storage.ts';

export interface MigrationOptions {
  readonly bpfRoot: string;
  /** Those that will be loaded: their programs are loaded once with the new maps before anything changes. */
  readonly layers: readonly Layer[];
  /** The kernel has taken the programs, with maps of other sizes. */
  readonly isTried?: boolean | undefined;
  /** The kernel may refuse these: there are ways without them. */
  readonly optional?: readonly Layer[];
  /** Of the objects. With the same text as last time they are not opened: that takes 1.4 MiB. */
  readonly digest?: string;
  /** max_entries by map name; others keep what the object declares. */
  readonly sizes: Readonly<Record<string, number>>;
  readonly versions?: MapVersions | undefined;
  /** carry.bpf.o, and who is told which records of sockets stay behind. */
  readonly storage?: Omit<StoragePart, 'options'> | undefined;
  /** carry_conn.bpf.o */
  readonly table?: TablePart['object'] | undefined;
  /** Told the name of each step before it is done. */
  readonly step?: ((name: string) => void) | undefined;
}

/** Throws FairleadError; then everything is as it was before. */
export async function migrateMaps(options: MigrationOptions): Promise<Carry> {
  const { bpfRoot, sizes, versions } = options;
  recoverGenerations(bpfRoot);
  const checked = `${options.digest} ${JSON.stringify(sizes)}`;
  if (options.digest !== undefined && isAsChecked(options, checked)) return NOTHING_TO_CARRY;
  const declared = declaredMaps(objectsOf(options), sizes);
  const known = { bpfRoot, declared, versions };
  const changes = findChanges(known);
  for (const [map, fields] of declared) writeFields(bpfRoot, mapPin(map, versions), fields);
  if (changes.length > 0) await prepare(options, known, changes);
  if (options.digest !== undefined) writeChecked(bpfRoot, checked);
  const old = oldGenerations(bpfRoot);
  if (old.length === 0) return NOTHING_TO_CARRY;
  const isFresh = changes.length > 0 && old.length === 1;
  const { storage, table, step } = options;
  const loading = { folder: pinFolder(bpfRoot), sizes, versions };
  return carryOver({
    ...{ ...known, isFresh, step },
    storage: storage && { ...storage, options: loading },
    table: table && { object: table, options: loading },
  });
}

function isAsChecked({ bpfRoot, versions }: MigrationOptions, checked: string): boolean {
  if (oldGenerations(bpfRoot).length > 0 || readChecked(bpfRoot) !== checked) return false;
  return pinsIn(pinFolder(bpfRoot).maps).every((pin) => {
    const map = parseMapPin(pin)?.map;
    return map === undefined || mapPin(map, versions) === pin;
  });
}

const objectsOf = ({ layers, optional = [] }: MigrationOptions): readonly LayerObject[] =>
  [...layers, ...optional].flatMap((layer) => layer.objects);

async function prepare(
  options: MigrationOptions,
  known: Known,
  changes: readonly Change[],
): Promise<void> {
  const { bpfRoot, step = () => undefined } = options;
  checkChanges(known, changes);
  step('preparing');
  const next = beginGeneration(bpfRoot);
  try {
    shareUnchanged(options, next, changes);
    makeChanged(options, next, changes);
    fillNext(known, next, step);
    step('loading');
    for (const layer of options.isTried ? [] : options.layers) await rehearse(layer, options, next);
  } catch (error) {
    removeGeneration(next);
    throw asFairleadError(error, { layer: { name: 'maps', objects: [], hooks: [] }, bpfRoot });
  }
  step('replacing maps');
  replaceGeneration(bpfRoot, step);
  step('replaced maps');
}

function checkChanges(known: Known, changes: readonly Change[]): void {
  const opened: BpfMap[] = [];
  const open = (path: string): BpfMap => {
    const map = native.openPinnedMap(path);
    opened.push(map);
    return map;
  };
  const sideOf = (path: string): Pick<OpenChange, 'from' | 'value'> => {
    const from = open(path);
    return { from, value: { fields: fieldsOf(known, path).value, bytes: from.info.valueSize } };
  };
  try {
    const all = changes.flatMap(({ map, from, wanted: { maxEntries } }) =>
      [from, ...formerTables(known, map)].map((path) => ({ map, maxEntries, ...sideOf(path) })),
    );
    checkRoom(all, (map) => {
      const [path] = pathsOf(pinFolder(known.bpfRoot).maps, map);
      return path === undefined ? undefined : sideOf(path);
    });
  } finally {
    for (const map of opened) map.close();
  }
}

/** An agent that was killed may have carried nothing of these yet. */
function formerTables({ bpfRoot }: Known, map: PinnedMap): readonly string[] {
  if (CARRYING[map] !== 'table') return [];
  return oldGenerations(bpfRoot).flatMap((old) => pathsOf(old, map));
}

function shareUnchanged(
  { bpfRoot, versions }: MigrationOptions,
  next: string,
  changes: readonly Change[],
): void {
  const { maps } = pinFolder(bpfRoot);
  for (const pin of pinsIn(maps)) {
    const name = parseMapPin(pin)?.map;
    if (name === undefined || mapPin(name, versions) !== pin) continue;
    if (CARRYING[name] === 'own' || changes.some(({ map }) => map === name)) continue;
    const map = native.openPinnedMap(join(maps, pin));
    try {
      map.pin(join(next, pin));
    } finally {
      map.close();
    }
  }
}

const OWN_MAPS = (Object.keys(CARRYING) as PinnedMap[]).filter((map) => CARRYING[map] === 'own');

/** An object without its programs is its maps. */
function makeChanged(options: MigrationOptions, next: string, changes: readonly Change[]): void {
  const { sizes, versions, step = () => undefined } = options;
  const missing = new Set<string>([...changes.map(({ map }) => map), ...OWN_MAPS]);
  for (const { bytes } of objectsOf(options)) {
    const object = native.openObject(bytes, { name: 'fairlead' });
    try {
      if (!object.maps.some((name) => missing.has(name))) continue;
      for (const { name } of object.programs) object.setAutoload(name, false);
      for (const name of object.maps) {
        const size = sizes[name];
        if (size !== undefined) object.setMaxEntries(name, size);
        if (isPinnedMap(name)) object.reusePin(name, join(next, mapPin(name, versions)));
      }
      step('making');
      object.load();
      for (const name of object.maps.filter((one) => missing.delete(one))) {
        step(`pinning ${name}`);
        pin(object.map(name), join(next, mapPin(name as PinnedMap, versions)));
      }
    } finally {
      object.close();
    }
  }
}

function pin(map: BpfMap, path: string): void {
  try {
    map.pin(path);
  } finally {
    map.close();
  }
}

function fillNext(known: Known, next: string, step: (name: string) => void): void {
  const pairs = openPairs(known, pinFolder(known.bpfRoot).maps, next);
  try {
    for (const pair of pairs) {
      step(`filling ${pair.map}`);
      fillPair(pair);
    }
  } finally {
    closePairs(pairs);
  }
}

/** Whether the kernel takes the programs with these maps. */
async function rehearse(
  layer: Layer,
  { bpfRoot, sizes, versions }: MigrationOptions,
  next: string,
) {
  const undo: Undo = [];
  const folder = { ...pinFolder(bpfRoot), maps: next };
  try {
    await loadLayer(layer, { folder, sizes, ...(versions && { versions }) }, undo);
  } catch (error) {
    throw asFairleadError(error, { layer, bpfRoot });
  } finally {
    takeBack(undo);
  }
}
