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

/** Undefined: no Service loses anything. Linear; free where no object is replaced. */
export function lossBetween(before: Objects, after: Objects): Loss | undefined {
  if ([...before].every(([key, { object }]) => after.get(key)?.object === object)) return undefined;
  const loss = { before: assetsOf(before), after: assetsOf(after) };
  return lostOf(loss.before, loss.after).size === 0 ? undefined : loss;
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
export function isOfLost({ ref, object }: NamedObject, lost: Assets): boolean {
  if (ref.kind === 'Service') return ((lost.get(refText(ref)) ?? 0) & ADDRESS) !== 0;
  return ref.kind === 'EndpointSlice' && ((lost.get(ownerOf(ref, object)) ?? 0) & ENDPOINTS) !== 0;
}

function assetsOf(objects: Objects): Assets {
  const assets = new Map<string, number>();
  for (const [key, { ref, object }] of objects) {
    if (ref.kind !== 'Service') continue;
    const hasAddress = isServed(labelsOf(object), recordOrEmpty(object['spec']));
    assets.set(key, hasAddress ? OBJECT | ADDRESS : OBJECT);
  }
  for (const { ref, object } of objects.values()) {
    if (ref.kind !== 'EndpointSlice' || !hasEndpoints(object)) continue;
    const owner = ownerOf(ref, object);
    const has = assets.get(owner);
    if (has !== undefined) assets.set(owner, has | ENDPOINTS);
  }
  return assets;
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
