// SPDX-License-Identifier: Apache-2.0
// EndpointSlices, changed: endpoints that terminate, another name.
import type { Manifest } from '../../../../tools/lab/manifests.ts';

/** A slice made by `slices`. */
export function terminating(slice: Manifest, isServing: boolean): Manifest {
  const { endpoints } = slice as unknown as { readonly endpoints: readonly object[] };
  const conditions = { ready: false, serving: isServing, terminating: true };
  return {
    ...slice,
    endpoints: endpoints.map((endpoint) => ({ ...endpoint, conditions })),
  } as Manifest;
}

/** Under a name of its own, beside those that the Service has already. */
export function renamed(slice: Manifest, suffix: string): Manifest {
  const { metadata } = slice as unknown as { readonly metadata: { readonly name: string } };
  return { ...slice, metadata: { ...metadata, name: `${metadata.name}${suffix}` } } as Manifest;
}
