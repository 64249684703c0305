// SPDX-License-Identifier: Apache-2.0
// EndpointSlices by the Service they belong to. Keyed by the slice's own namespace and name, so that a slice
// whose service-name label changes leaves its old Service (kube-proxy keeps a stale copy).
import { flatText } from '../lib/compact.ts';
import { compareText } from '../lib/names.ts';
import type { EndpointSlice, ObjectRef } from '../model/types.ts';
import type { ServiceKey } from './types.ts';

export interface SliceIndex {
  /** Puts, replaces or (undefined) removes one slice; returns the Services it touches. */
  readonly set: (ref: ObjectRef, slice: EndpointSlice | undefined) => readonly ServiceKey[];
  readonly has: (ref: ObjectRef) => boolean;
  /** The slices of the Service, sorted by name. They may arrive before the Service does. */
  readonly of: (key: ServiceKey) => readonly EndpointSlice[];
}

const NO_SLICES: readonly EndpointSlice[] = Object.freeze([]);

export function createSliceIndex(): SliceIndex {
  const bySlice = new Map<string, EndpointSlice>();
  const byService = new Map<ServiceKey, EndpointSlice[]>();

  const leave = (slice: EndpointSlice): void => {
    const siblings = (byService.get(slice.service) ?? []).filter((other) => other !== slice);
    if (siblings.length === 0) byService.delete(slice.service);
    else byService.set(slice.service, siblings);
  };

  const join = (slice: EndpointSlice): void => {
    const siblings = byService.get(slice.service);
    if (siblings === undefined) {
      byService.set(slice.service, [slice]);
      return;
    }
    const at = siblings.findIndex((other) => compareText(other.name, slice.name) > 0);
    siblings.splice(at < 0 ? siblings.length : at, 0, slice);
  };

  return {
    set: (ref, slice) => {
      const key = flatText(ref.namespace, '/', ref.name);
      const before = bySlice.get(key);
      if (before !== undefined) leave(before);
      if (slice === undefined) {
        bySlice.delete(key);
      } else {
        bySlice.set(key, slice);
        join(slice);
      }
      return [before, slice].flatMap((touched) => (touched === undefined ? [] : touched.service));
    },
    has: ({ namespace, name }) => bySlice.has(flatText(namespace, '/', name)),
    of: (key) => byService.get(key) ?? NO_SLICES,
  };
}
