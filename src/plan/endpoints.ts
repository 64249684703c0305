// SPDX-License-Identifier: Apache-2.0
// The endpoints of one service port, merged from all slices of its Service: matched by port name and
// protocol, duplicates settled, sorted. Source: endpointslicecache.go and endpointschangetracker.go in kube-proxy. Floor 2.
import { compareText } from '../lib/names.ts';
import type { Endpoint, EndpointSlice, Family, ServicePort } from '../model/types.ts';

/** One endpoint of one service port: the port number is the slice's, so it may differ between endpoints. */
export interface Candidate {
  readonly endpoint: Endpoint;
  readonly port: number;
}

const NONE: readonly Candidate[] = Object.freeze([]);

/**
 * Sorted by address then port, each address:port once. `slices` come sorted by name: where rank says nothing the
 * first slice wins, so the outcome never depends on the order of arrival. O(n log n), linear if slices are sorted.
 */
export function mergeEndpoints(
  port: ServicePort,
  family: Family,
  slices: readonly EndpointSlice[],
): readonly Candidate[] {
  const found: Candidate[] = [];
  for (const slice of slices) {
    if (slice.family !== family) continue;
    for (const slicePort of slice.ports) {
      if (slicePort.name !== port.name || slicePort.protocol !== port.protocol) continue;
      for (const endpoint of slice.endpoints) found.push({ endpoint, port: slicePort.port });
    }
  }
  if (found.length === 0) return NONE;
  found.sort(compareCandidates);
  return withoutDuplicates(found);
}

function compareCandidates(a: Candidate, b: Candidate): number {
  return (
    compareText(a.endpoint.address, b.endpoint.address) ||
    a.port - b.port ||
    rank(a.endpoint) - rank(b.endpoint)
  );
}

/** Lower wins: an address that terminates in one slice and lives in another has been given to a new pod. */
function rank(endpoint: Endpoint): number {
  return (
    (endpoint.isTerminating ? 4 : 0) + (endpoint.isReady ? 0 : 2) + (endpoint.isServing ? 0 : 1)
  );
}

function withoutDuplicates(sorted: Candidate[]): readonly Candidate[] {
  let kept = 0;
  for (const candidate of sorted) {
    const last = kept > 0 ? sorted[kept - 1] : undefined;
    const isDuplicate =
      last !== undefined &&
      last.endpoint.address === candidate.endpoint.address &&
      last.port === candidate.port;
    if (!isDuplicate) {
      sorted[kept] = candidate;
      kept += 1;
    }
  }
  sorted.length = kept;
  return sorted;
}
