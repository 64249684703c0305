// SPDX-License-Identifier: Apache-2.0
// Which ready endpoints topology hints leave to this node. Only hints count: trafficDistribution and
// annotations are for the slice controller. All or nothing: one ready endpoint without a hint disables its
// level. Source: topologyModeFromHints in kube-proxy's topology.go; KEP-2433, KEP-3015.
import type { EndpointTraits } from '../../model/types.ts';

export type TopologyMode = 'same-node' | 'same-zone' | undefined;

/** The node and zone that this proxy runs in. */
export interface Locality {
  readonly nodeName: string;
  /** '' matches no hint. */
  readonly zone: string;
}

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
