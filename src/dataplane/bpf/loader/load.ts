// SPDX-License-Identifier: Apache-2.0
// Loads a layer's objects into the kernel: pinned maps are reused, new ones are pinned, so that each object
// shares the maps of those before it. The verifier runs on another thread.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { BpfMap, BpfObject, BpfProgram } from '../../../sys/native.ts';
import * as native from '../../../sys/native.ts';
import { codeOf } from './errors.ts';
import type { Layer, LayerObject, Rodata } from './layer.ts';
import { type PinFolder, unpin } from './pins.ts';
import { closeAll, type Undo } from './undo.ts';
import { isPinnedMap, mapPin } from './versions.ts';

export interface LoadOptions {
  readonly folder: PinFolder;
  /** max_entries by map name; others keep what the object declares. */
  readonly sizes: Readonly<Record<string, number>>;
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
  for (const part of layer.objects) {
    const { object, rodata } = await loadFirst(part, options);
    try {
      taken.push(rodata);
      for (const name of object.maps) {
        if (!maps.has(name)) maps.set(name, object.map(name));
      }
      for (const { name } of object.programs) programs.set(name, object.program(name));
    } finally {
      object.close();
    }
    pinNew(maps, options.folder, undo);
  }
  return { maps, programs, rodata: taken };
}

interface LoadedObject {
  readonly object: BpfObject;
  readonly rodata: Rodata;
}

/** With the first settings that the kernel accepts. */
async function loadFirst(part: LayerObject, options: LoadOptions): Promise<LoadedObject> {
  let refusal: unknown;
  for (const rodata of part.rodata) {
    try {
      return { object: await loadWith(part.bytes, rodata, options), rodata };
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

async function loadWith(
  bytes: Uint8Array,
  rodata: Rodata,
  { folder, sizes }: LoadOptions,
): Promise<BpfObject> {
  const object = native.openObject(bytes, { name: 'fairlead' });
  try {
    for (const [variable, value] of Object.entries(rodata)) object.setRodata(variable, value);
    for (const name of object.maps) {
      const size = sizes[name];
      if (size !== undefined) object.setMaxEntries(name, size);
      if (isPinnedMap(name)) object.reusePin(name, join(folder.maps, mapPin(name)));
    }
    await object.loadAsync();
    return object;
  } catch (error) {
    object.close();
    throw error;
  }
}

function pinNew(maps: ReadonlyMap<string, BpfMap>, folder: PinFolder, undo: Undo): void {
  for (const [name, map] of maps) {
    if (!isPinnedMap(name)) continue;
    const path = join(folder.maps, mapPin(name));
    if (existsSync(path)) continue;
    map.pin(path);
    undo.push(() => unpin(path));
  }
}
