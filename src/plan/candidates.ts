// SPDX-License-Identifier: Apache-2.0
// The candidate sets of one service port: `cluster`, `local`, `serving`. Each falls back to endpoints
// that terminate but still serve only when it has nothing ready (KEP-1669), and independently of the other.
// Source: CategorizeEndpoints in kube-proxy's topology.go. Floor 2.
import { exactList } from '../lib/compact.ts';
import type { EndpointTraits } from '../model/types.ts';
import type { MergedEndpoints } from './endpoints.ts';
import { isAllowedBy, type Place, type TopologyMode, topologyMode } from './topology.ts';
import type { Backend } from './types.ts';

export interface CandidateSets {
  readonly cluster: readonly Backend[];
  readonly local: readonly Backend[];
  readonly serving: readonly Backend[];
  readonly topology: TopologyMode;
  /** All ready endpoints, whatever the policies: health checks count the local ones. */
  readonly ready: readonly Backend[];
  /** Is there any endpoint that some node could use? Then an empty set is silence, not refusal. */
  readonly isAnyUsable: boolean;
}

export interface SetsWanted {
  readonly usesCluster: boolean;
  readonly usesLocal: boolean;
}

const NO_BACKENDS: readonly Backend[] = Object.freeze([]);

/** Linear. The sets share their Backend records and, where they are equal, themselves. Sorted as the input is. */
export function candidateSets(
  merged: MergedEndpoints,
  wanted: SetsWanted,
  place: Place,
): CandidateSets {
  const topology = wanted.usesCluster ? topologyMode(merged.traits, place) : undefined;
  const { serving, ready, near, fallback } = sortOut(merged, topology, place);
  return {
    cluster: wanted.usesCluster
      ? firstFilled(topology === undefined ? ready : near, fallback)
      : NO_BACKENDS,
    local: wanted.usesLocal
      ? exactList(firstFilled(ready.filter(isLocal), fallback.filter(isLocal)))
      : NO_BACKENDS,
    serving: serving.length === ready.length ? ready : serving,
    ready,
    topology,
    isAnyUsable: ready.length > 0 || fallback.length > 0,
  };
}

interface SortedOut {
  /** Ready or serving: everything that may carry a flow. */
  readonly serving: readonly Backend[];
  readonly ready: readonly Backend[];
  /** Those of `ready` that topology allows, if it has a say. */
  readonly near: readonly Backend[];
  /** Not ready, but serving while they terminate. */
  readonly fallback: readonly Backend[];
}

function sortOut(
  { addresses, traits, ports }: MergedEndpoints,
  topology: TopologyMode,
  place: Place,
): SortedOut {
  const serving: Backend[] = [];
  const ready: Backend[] = [];
  const near: Backend[] = [];
  const fallback: Backend[] = [];
  for (let index = 0; index < addresses.length; index += 1) {
    const address = addresses[index];
    const endpoint = traits[index];
    const port = typeof ports === 'number' ? ports : ports[index];
    if (address === undefined || endpoint === undefined || port === undefined) continue;
    if (!endpoint.isReady && !endpoint.isServing) continue;
    const backend = backendOf(address, port, endpoint, place.nodeName);
    serving.push(backend);
    if (endpoint.isReady) {
      ready.push(backend);
      if (topology !== undefined && isAllowedBy(topology, endpoint, place)) near.push(backend);
    } else if (endpoint.isTerminating) {
      fallback.push(backend);
    }
  }
  return {
    serving: exactList(serving),
    ready: exactList(ready),
    near: exactList(near),
    fallback: exactList(fallback),
  };
}

const isLocal = (backend: Backend): boolean => backend.isLocal;

const firstFilled = (first: readonly Backend[], second: readonly Backend[]): readonly Backend[] =>
  first.length > 0 ? first : second;

function backendOf(
  address: string,
  port: number,
  { isReady, isTerminating, nodeName }: EndpointTraits,
  ownNode: string,
): Backend {
  // An endpoint without a node is never local, not even to a proxy without a name.
  const isLocalHere = nodeName !== undefined && nodeName === ownNode;
  return { address, port, isLocal: isLocalHere, isTerminating: !isReady && isTerminating };
}
