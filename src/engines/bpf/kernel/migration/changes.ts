// SPDX-License-Identifier: Apache-2.0
// The pinned maps as the objects of this version declare them, with the sizes that are asked for, and which of those that are
// there have another layout or another size.
import { basename, join } from 'node:path';
import { FairleadError } from '../../../../errors.ts';
import { openObject, openPinnedMap } from '../../../../sys/native.ts';
import type { LayerObject } from '../../layer.ts';
import {
  isPinnedMap,
  type MapVersions,
  mapPin,
  type PinnedMap,
  parseMapPin,
} from '../../layout/versions.ts';
import { pinFolder, pinsIn } from '../loader/pins.ts';
import { type MapFields, readFields } from './records.ts';

export interface Declared extends MapFields {
  readonly maxEntries: number;
}

export function declaredMaps(
  objects: readonly Pick<LayerObject, 'bytes'>[],
  sizes: Readonly<Record<string, number>>,
): ReadonlyMap<PinnedMap, Declared> {
  const declared = new Map<PinnedMap, Declared>();
  for (const { bytes } of objects) {
    const object = openObject(bytes, { name: 'fairlead' });
    try {
      for (const name of object.maps) {
        if (!isPinnedMap(name) || declared.has(name)) continue;
        const { maxEntries, ...fields } = object.mapLayout(name);
        declared.set(name, { ...fields, maxEntries: sizes[name] ?? maxEntries });
      }
    } finally {
      object.close();
    }
  }
  return declared;
}

export interface Change {
  readonly map: PinnedMap;
  /** Path of the pin with the entries. */
  readonly from: string;
  readonly fields: MapFields;
  readonly wanted: Declared;
}

export interface Known {
  readonly bpfRoot: string;
  readonly declared: ReadonlyMap<PinnedMap, Declared>;
  /** Of this build; tests have others. */
  readonly versions?: MapVersions | undefined;
}

/** Throws OTHER_LAYOUT if a map is pinned in another version whose fields are not known. */
export function findChanges(known: Known): readonly Change[] {
  const { maps } = pinFolder(known.bpfRoot);
  return pinsIn(maps).flatMap((pin) => {
    const map = parseMapPin(pin)?.map;
    const wanted = map && known.declared.get(map);
    if (map === undefined || wanted === undefined) return [];
    const from = join(maps, pin);
    const isVersion = mapPin(map, known.versions) === pin;
    if (isVersion && sizeOf(from) === wanted.maxEntries) return [];
    return [{ map, from, fields: isVersion ? wanted : fieldsOf(known, from), wanted }];
  });
}

function sizeOf(path: string): number {
  const map = openPinnedMap(path);
  try {
    return map.info.maxEntries;
  } finally {
    map.close();
  }
}

export function fieldsOf({ bpfRoot, declared, versions }: Known, path: string): MapFields {
  const pin = basename(path);
  const map = parseMapPin(pin)?.map;
  const wanted = map && mapPin(map, versions) === pin ? declared.get(map) : undefined;
  const fields = wanted ?? readFields(bpfRoot, pin);
  if (fields !== undefined) return fields;
  const own = map === undefined ? 'maps' : mapPin(map, versions);
  throw new FairleadError(
    'OTHER_LAYOUT',
    `${path} has another layout than the ${own} of this version of fairlead, and its fields are not recorded: start the version that pinned it, run \`fairlead cleanup --bpf-root ${bpfRoot}\` (no Service is served until the next start) or use another --bpf-root`,
  );
}
