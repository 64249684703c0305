// SPDX-License-Identifier: Apache-2.0
// The order of endpoints, and which of two with the same address is meant.
import { compareText } from '../../lib/names.ts';
import type { Endpoint, EndpointTraits } from '../types.ts';

/**
 * By address, then the one that counts first: an address that terminates in one entry and lives in another has been
 * given to a new pod (kubernetes PR 135593), ready beats not ready, serving beats not serving.
 */
export function compareEndpoints(a: Endpoint, b: Endpoint): number {
  return compareText(a.address, b.address) || rank(a.traits) - rank(b.traits);
}

function rank(traits: EndpointTraits): number {
  return (traits.isTerminating ? 4 : 0) + (traits.isReady ? 0 : 2) + (traits.isServing ? 0 : 1);
}

/** Sorts in place and keeps the first of each address. Linear if already sorted. */
export function sortEndpoints(endpoints: Endpoint[]): readonly Endpoint[] {
  const isSorted = endpoints.every((endpoint, index) => {
    const before = index > 0 ? endpoints[index - 1] : undefined;
    return before === undefined || before.address < endpoint.address;
  });
  if (isSorted) return endpoints;
  endpoints.sort(compareEndpoints);
  let kept = 0;
  let last = '';
  for (const endpoint of endpoints) {
    if (endpoint.address === last) continue;
    last = endpoint.address;
    endpoints[kept] = endpoint;
    kept += 1;
  }
  endpoints.length = kept;
  return endpoints;
}
