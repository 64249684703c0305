// SPDX-License-Identifier: Apache-2.0
// Loads a layer's objects into the kernel: pinned maps are reused, new ones are pinned, so that each object
// shares the maps of those before it. The verifier runs on other threads; programs of one object may be loaded as several
// objects over the same maps, which the kernel verifies at the same time.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { BpfMap, BpfObject, BpfProgram } from '../../../../sys/native.ts';
import * as native from '../../../../sys/native.ts';
import { connRodata } from '../../conn/sizes.ts';
import { codeOf } from '../../errors.ts';
import type { Layer, LayerObject, Rodata } from '../../layer.ts';
import { isPinnedMap, type MapVersions, mapPin } from '../../layout/versions.ts';
import { withCast } from './cast.ts';
import { type PinFolder, unpin } from './pins.ts';
import { closeAll, type Undo } from './undo.ts';

export interface LoadOptions {
  readonly folder: PinFolder;
  /** max_entries by map name; others keep what the object declares. */
  readonly sizes: Readonly<Record<string, number>>;
  /** Of this build; tests have others. */
  readonly versions?: MapVersions | undefined;
  /** Maps of other loads, by name: used before pins, so that what is not pinned is shared, too. */
  readonly maps?: ReadonlyMap<string, BpfMap> | undefined;
}

export interface Loaded {
  readonly maps: ReadonlyMap<string, BpfMap>;
  readonly programs: ReadonlyMap<string, BpfProgram>;
  /** For each object, the settings that the kernel accepted. */
  readonly rodata: readonly Rodata[];
}

/** Adds what it made to `undo`. */
export async function loadLayer(layer: Layer, options: LoadOptions, undo: Undo): Promise<Loaded> {
  const maps = new Map<string, BpfMap>();
  const programs = new Map<string, BpfProgram>();
  const taken: Rodata[] = [];
  undo.push(() => closeAll([...programs.values(), ...maps.values()]));
  const shared = (): LoadOptions => ({
    ...options,
    maps: new Map([...(options.maps ?? []), ...maps]),
  });
  const take = (loads: readonly LoadedObject[]): void => {
    try {
      for (const { object, programs: names } of loads) {
        for (const name of object.maps) if (!maps.has(name)) maps.set(name, object.map(name));
        for (const name of names) programs.set(name, object.program(name));
      }
    } finally {
      closeAll(loads.map(({ object }) => object));
    }
    pinNew(maps, options, undo);
  };
  for (const part of layer.objects) {
    if (needsMaps(part, options)) take([await loadMaps(part, shared())]);
  }
  for (const part of layer.objects) {
    const { loads, rodata } = await loadObject(part, shared());
    taken.push(rodata);
    take(loads);
  }
  return { maps, programs, rodata: taken };
}

/** Programs that are loaded apart share maps that must be there before. */
const needsMaps = ({ apart = [] }: LayerObject, { maps }: LoadOptions): boolean =>
  apart.length > 0 && maps === undefined;

interface LoadedObject {
  /** The caller closes it. */
  readonly object: BpfObject;
  /** Those that were loaded, by name. */
  readonly programs: readonly string[];
}

/** An object without its programs is its maps. */
const loadMaps = (part: LayerObject, options: LoadOptions): Promise<LoadedObject> =>
  loadSome({ ...part, rodata: {}, has: () => false }, options);

/** With the first settings that the kernel accepts. */
async function loadObject(
  part: LayerObject,
  options: LoadOptions,
): Promise<{ readonly loads: readonly LoadedObject[]; readonly rodata: Rodata }> {
  let refusal: unknown;
  for (const rodata of part.rodata) {
    try {
      return { loads: await loadGroups(part, rodata, options), rodata };
    } catch (error) {
      // The first error is the most useful one: later settings lack a feature.
      refusal ??= error;
      if (!maySettingsHelp(error)) break;
    }
  }
  throw refusal;
}

const maySettingsHelp = (error: unknown): boolean =>
  codeOf(error) === 'VERIFIER' || codeOf(error) === 'EINVAL';

async function loadGroups(
  { bytes, kernelTypes, programFlags, without = [], apart = [] }: LayerObject,
  rodata: Rodata,
  options: LoadOptions,
): Promise<readonly LoadedObject[]> {
  const isRest = (name: string): boolean => !without.includes(name) && !apart.includes(name);
  const isApart = (name: string): boolean => apart.includes(name);
  const groups = apart.length > 0 ? [isRest, isApart] : [isRest];
  const ends = await Promise.allSettled(
    groups.map((has) => loadSome({ bytes, kernelTypes, programFlags, rodata, has }, options)),
  );
  const loads = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
  const refused = ends.find((end) => end.status === 'rejected');
  if (refused === undefined) return loads;
  closeAll(loads.map(({ object }) => object));
  throw refused.reason;
}

interface Some extends Pick<LayerObject, 'bytes' | 'kernelTypes'> {
  readonly programFlags?: LayerObject['programFlags'] | undefined;
  readonly rodata: Rodata;
  /** Whether a program is loaded, by its name. */
  readonly has: (program: string) => boolean;
}

async function loadSome(
  { bytes, kernelTypes, programFlags = {}, rodata, has }: Some,
  { folder, sizes, versions, maps }: LoadOptions,
): Promise<LoadedObject> {
  const object = native.openObject(withCast(bytes, rodata), {
    name: 'fairlead',
    ...(kernelTypes && { kernelTypes }),
  });
  try {
    for (const [variable, value] of Object.entries(rodata)) object.setRodata(variable, value);
    const all = object.programs.map(({ name }) => name);
    for (const name of all) if (!has(name)) object.setAutoload(name, false);
    for (const [name, flags] of Object.entries(programFlags)) object.setProgramFlags(name, flags);
    for (const name of object.maps) {
      const size = sizes[name];
      if (size !== undefined) object.setMaxEntries(name, size);
      const shared = isOfLoad(name) ? undefined : maps?.get(name);
      if (shared !== undefined) object.reuseMap(name, shared);
      else if (isPinnedMap(name)) object.reusePin(name, join(folder.maps, mapPin(name, versions)));
    }
    if (object.maps.includes('fl_client4')) {
      for (const [variable, value] of Object.entries(connRodata(sizes)))
        object.setRodata(variable, value);
    }
    await object.loadAsync();
    return { object, programs: all.filter(has) };
  } catch (error) {
    object.close();
    throw error;
  }
}

/** `fairlead.rodata`: the settings of one load. */
const isOfLoad = (map: string): boolean => map.includes('.');

function pinNew(
  maps: ReadonlyMap<string, BpfMap>,
  { folder, versions }: LoadOptions,
  undo: Undo,
): void {
  for (const [name, map] of maps) {
    if (!isPinnedMap(name)) continue;
    const path = join(folder.maps, mapPin(name, versions));
    if (existsSync(path)) continue;
    map.pin(path);
    undo.push(() => unpin(path));
  }
}
