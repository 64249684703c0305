// SPDX-License-Identifier: Apache-2.0
// The endpoints of one service port, merged from all slices of its Service: matched by port name and
// protocol, duplicates merged, sorted. Source: endpointslicecache.go and endpointschangetracker.go in kube-proxy.
import { compareText } from '../../lib/names.ts';
import { compareEndpoints } from '../../model/endpoints/order.ts';
import type {
  Endpoint,
  EndpointColumns,
  EndpointSlice,
  Family,
  ServicePort,
} from '../../model/types.ts';

/** Sorted by address then port, each address:port once; `ports[i]` belongs to `addresses[i]`. */
export interface MergedEndpoints extends EndpointColumns {
  /** A single number if all have the same: slices may resolve one named port to different numbers. */
  readonly ports: number | readonly number[];
}

interface Source {
  readonly slice: EndpointSlice;
  readonly port: number;
}

const NOTHING: MergedEndpoints = Object.freeze({ addresses: [], traits: [], ports: 0 });

/**
 * `slices` come sorted by name: at equal rank the first slice wins, so the result never depends on the order of
 * arrival. O(1) for a Service of one slice, else O(n log n).
 */
export function mergeEndpoints(
  port: ServicePort,
  family: Family,
  slices: readonly EndpointSlice[],
): MergedEndpoints {
  const sources: Source[] = [];
  for (const slice of slices) {
    if (slice.family !== family) continue;
    for (const slicePort of slice.ports) {
      if (slicePort.name !== port.name || slicePort.protocol !== port.protocol) continue;
      sources.push({ slice, port: slicePort.port });
    }
  }
  const [first] = sources;
  if (first === undefined) return NOTHING;
  if (sources.length > 1) return mergeSources(sources);
  const { addresses, traits, weights } = first.slice;
  return { addresses, traits, ports: first.port, ...(weights && { weights }) };
}

function mergeSources(sources: readonly Source[]): MergedEndpoints {
  const found = sources.flatMap(({ slice, port }) =>
    endpointsOf(slice).map((endpoint) => ({ ...endpoint, port })),
  );
  found.sort(
    (a, b) => compareText(a.address, b.address) || a.port - b.port || compareEndpoints(a, b),
  );
  const kept = found.filter(({ address, port }, index) => {
    const before = index > 0 ? found[index - 1] : undefined;
    return before?.address !== address || before.port !== port;
  });
  const isWeighted = sources.some(({ slice }) => slice.weights !== undefined);
  return {
    addresses: kept.map(({ address }) => address),
    traits: kept.map(({ traits }) => traits),
    ports: kept.map(({ port }) => port),
    ...(isWeighted && { weights: kept.map(({ weight }) => weight) }),
  };
}

interface WeightedEndpoint extends Endpoint {
  readonly weight: number;
}

function endpointsOf({ addresses, traits, weights }: EndpointColumns): readonly WeightedEndpoint[] {
  return addresses.flatMap((address, index) => {
    const said = traits[index];
    return said === undefined ? [] : { address, traits: said, weight: weights?.[index] ?? 1 };
  });
}
