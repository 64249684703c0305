// SPDX-License-Identifier: Apache-2.0
// What a change of the folder takes from its Services: an object, a frontend address, or endpoints. Pure.
import { isRecord, type JsonRecord, recordOrEmpty } from '../../lib/json.ts';
import { SERVICE_NAME_LABEL } from '../../model/labels.ts';
import { refText } from '../../model/object-ref.ts';
import { isServed } from '../../model/service/service.ts';
import type { ObjectRef } from '../../model/types.ts';

const OBJECT = 1;
const ADDRESS = 2;
const ENDPOINTS = 4;

/** By Service: which of the three it has. */
export type Assets = ReadonlyMap<string, number>;

export interface Loss {
  readonly before: Assets;
  readonly after: Assets;
}

interface NamedObject {
  readonly ref: ObjectRef;
  readonly object: JsonRecord;
}

type Objects = ReadonlyMap<string, NamedObject>;

/** Undefined: no Service loses anything. Linear; cheap where no object gives less than before. */
export function lossBetween(before: Objects, after: Objects): Loss | undefined {
  if ([...before].every(([key, entry]) => givesAsMuch(after.get(key), entry))) return undefined;
  const loss = { before: assetsOf(before), after: assetsOf(after) };
  return lostOf(loss.before, loss.after).size === 0 ? undefined : loss;
}

function givesAsMuch(now: NamedObject | undefined, before: NamedObject): boolean {
  if (now?.object === before.object) return true;
  const had = assetOf(before);
  if (had === undefined) return true;
  const has = now && assetOf(now);
  return has?.service === had.service && (had.what & ~has.what) === 0;
}

/** What is lost, by Service. */
export function lostOf(before: Assets, after: Assets): Assets {
  const lost = new Map<string, number>();
  for (const [service, had] of before) {
    const gone = had & ~(after.get(service) ?? 0);
    if (gone !== 0) lost.set(service, gone);
  }
  return lost;
}

/** True if what is lost was in this object. */
export function isOfLost(entry: NamedObject, lost: Assets): boolean {
  const had = assetOf(entry);
  return had !== undefined && ((lost.get(had.service) ?? 0) & had.what) !== 0;
}

function assetsOf(objects: Objects): Assets {
  const assets = new Map<string, number>();
  for (const entry of objects.values()) {
    const asset = assetOf(entry);
    if (asset !== undefined)
      assets.set(asset.service, (assets.get(asset.service) ?? 0) | asset.what);
  }
  for (const [service, what] of assets) if ((what & OBJECT) === 0) assets.delete(service);
  return assets;
}

/** What one object gives to which Service. */
function assetOf({
  ref,
  object,
}: NamedObject): { readonly service: string; readonly what: number } | undefined {
  if (ref.kind === 'Service') {
    const hasAddress = isServed(labelsOf(object), recordOrEmpty(object['spec']));
    return { service: refText(ref), what: hasAddress ? OBJECT | ADDRESS : OBJECT };
  }
  if (ref.kind !== 'EndpointSlice' || !hasEndpoints(object)) return undefined;
  return { service: ownerOf(ref, object), what: ENDPOINTS };
}

const hasEndpoints = ({ endpoints }: JsonRecord): boolean =>
  Array.isArray(endpoints) &&
  endpoints.some((endpoint: unknown) => {
    const addresses = isRecord(endpoint) ? endpoint['addresses'] : undefined;
    return Array.isArray(addresses) && addresses.length > 0;
  });

const labelsOf = ({ metadata }: JsonRecord): JsonRecord =>
  recordOrEmpty(recordOrEmpty(metadata)['labels']);

const ownerOf = ({ namespace }: ObjectRef, slice: JsonRecord): string =>
  refText({ kind: 'Service', namespace, name: String(labelsOf(slice)[SERVICE_NAME_LABEL]) });
