// SPDX-License-Identifier: Apache-2.0
// Which ready endpoints topology hints leave to this node. Only hints count, and the annotation `fairlead.io/topology`:
// trafficDistribution and other annotations are for the slice controller. All or nothing: one ready endpoint without a hint disables its
// level. Source: topologyModeFromHints in kube-proxy's topology.go; KEP-2433, KEP-3015.
import type { EndpointTraits, Topology } from '../../model/types.ts';

export type TopologyMode = 'same-node' | 'same-zone' | undefined;

/** The node and zone that this proxy runs in. */
export interface Locality {
  readonly nodeName: string;
  /** '' matches no hint. */
  readonly zone: string;
}

type Hints = Pick<EndpointTraits, 'zoneHints' | 'nodeHints'>;

const namesOf = (name: string | undefined): readonly string[] =>
  name === undefined || name === '' ? [] : [name];

/** As the slice controller writes them for trafficDistribution PreferSameZone and PreferSameNode, or none. */
const HINTS: Readonly<Record<Exclude<Topology, 'hints'>, (traits: EndpointTraits) => Hints>> = {
  ignore: () => ({ zoneHints: [], nodeHints: [] }),
  'prefer-zone': ({ zone }) => ({ zoneHints: namesOf(zone), nodeHints: [] }),
  'prefer-node': ({ zone, nodeName }) => ({
    zoneHints: namesOf(zone),
    nodeHints: namesOf(nodeName),
  }),
};

/** Endpoints with the hints that count. */
export const withHints = (
  traits: readonly EndpointTraits[],
  choice: Topology,
): readonly EndpointTraits[] =>
  choice === 'hints' ? traits : traits.map((one) => ({ ...one, ...HINTS[choice](one) }));

/** Considers ready endpoints only. */
export function topologyMode(traits: readonly EndpointTraits[], locality: Locality): TopologyMode {
  let hasAllNodes = true;
  let hasOwnNode = false;
  let hasAllZones = true;
  let hasOwnZone = false;
  for (const { isReady, nodeHints, zoneHints } of traits) {
    if (!isReady) continue;
    if (nodeHints.length === 0) hasAllNodes = false;
    else if (nodeHints.includes(locality.nodeName)) hasOwnNode = true;
    if (zoneHints.length === 0) hasAllZones = false;
    else if (locality.zone !== '' && zoneHints.includes(locality.zone)) hasOwnZone = true;
  }
  if (hasAllNodes && hasOwnNode) return 'same-node';
  return hasAllZones && hasOwnZone ? 'same-zone' : undefined;
}

export function isAllowedBy(
  mode: TopologyMode,
  traits: EndpointTraits,
  locality: Locality,
): boolean {
  if (mode === undefined) return true;
  return mode === 'same-node'
    ? traits.nodeHints.includes(locality.nodeName)
    : traits.zoneHints.includes(locality.zone);
}
