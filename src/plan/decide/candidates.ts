// SPDX-License-Identifier: Apache-2.0
// The candidate sets of one service port: `cluster`, `local`, `serving`. Each falls back to endpoints
// that terminate but still serve only when it has nothing ready (KEP-1669), independently of the others.
// Source: CategorizeEndpoints in kube-proxy's topology.go.
import type { EndpointTraits, Topology } from '../../model/types.ts';
import type { BackendList } from '../types.ts';
import { type BackendColumns, pickBackends, valueAt } from './backend-list.ts';
import type { MergedEndpoints } from './endpoints.ts';
import {
  isAllowedBy,
  type Locality,
  type TopologyMode,
  topologyMode,
  withHints,
} from './topology.ts';

export interface CandidateSets {
  readonly cluster: BackendList;
  readonly local: BackendList;
  readonly serving: BackendList;
  readonly topology: TopologyMode;
  /** All ready endpoints, whatever the policies: health checks count the local ones. */
  readonly ready: BackendList;
  /** True if some node could use an endpoint: then an empty set means drop, not reject. */
  readonly isAnyUsable: boolean;
}

export interface SetsWanted {
  readonly usesCluster: boolean;
  readonly usesLocal: boolean;
  /** Backends know the node that they are on. */
  readonly usesNodes: boolean;
  readonly topologyChoice: Topology;
}

/** Linear. The sets share their addresses and, where they are equal, themselves. Sorted as the input is. */
export function candidateSets(
  merged: MergedEndpoints,
  wanted: SetsWanted,
  locality: Locality,
): CandidateSets {
  const traits = traitsOf(merged);
  const hinted = withHints(traits, wanted.topologyChoice);
  const topology = wanted.usesCluster ? topologyMode(hinted, locality) : undefined;
  const { serving, ready, near, fallback } = categorize(hinted, topology, locality);
  const columns = columnsOf(merged, locality.nodeName, wanted.usesNodes);
  const pick = (indexes: readonly number[]): BackendList => pickBackends(columns, indexes);
  const isLocal = (index: number): boolean => valueAt(columns.areLocal, index);
  const allReady = pick(ready);
  const clusterWide = topology === undefined ? allReady : pick(near);
  return {
    cluster: wanted.usesCluster ? firstFilled(clusterWide, () => pick(fallback)) : pick([]),
    local: wanted.usesLocal
      ? firstFilled(pick(ready.filter(isLocal)), () => pick(fallback.filter(isLocal)))
      : pick([]),
    serving: serving.length === ready.length ? allReady : pick(serving),
    ready: allReady,
    topology,
    isAnyUsable: ready.length > 0 || fallback.length > 0,
  };
}

/**
 * An endpoint of weight 0 counts as one that is not ready and serves on: it is in no set, topology hints and health
 * checks do not count it, and it keeps its flows.
 */
function traitsOf({ traits, weights }: MergedEndpoints): readonly EndpointTraits[] {
  if (weights?.includes(0) !== true) return traits;
  return traits.map((endpoint, index) =>
    weights[index] === 0
      ? { ...endpoint, isReady: false, isServing: canServe(endpoint), isTerminating: false }
      : endpoint,
  );
}

const canServe = ({ isReady, isServing }: EndpointTraits): boolean => isReady || isServing;

/** Indexes of endpoints, ascending. */
interface Categories {
  /** Ready or serving: everything that may carry a flow. */
  readonly serving: readonly number[];
  readonly ready: readonly number[];
  /** Those of `ready` that topology hints allow, if they apply. */
  readonly near: readonly number[];
  /** Not ready, but serving while they terminate. */
  readonly fallback: readonly number[];
}

function categorize(
  traits: readonly EndpointTraits[],
  topology: TopologyMode,
  locality: Locality,
): Categories {
  const serving: number[] = [];
  const ready: number[] = [];
  const near: number[] = [];
  const fallback: number[] = [];
  for (const [index, endpoint] of traits.entries()) {
    if (!canServe(endpoint)) continue;
    serving.push(index);
    if (endpoint.isReady) {
      ready.push(index);
      if (topology !== undefined && isAllowedBy(topology, endpoint, locality)) near.push(index);
    } else if (endpoint.isTerminating) {
      fallback.push(index);
    }
  }
  return { serving, ready, near, fallback };
}

const firstFilled = (first: BackendList, second: () => BackendList): BackendList =>
  first.length > 0 ? first : second();

function columnsOf(
  { addresses, traits, ports, weights }: MergedEndpoints,
  ownNode: string,
  usesNodes: boolean,
): BackendColumns {
  return {
    addresses,
    ports,
    weights: weights ?? 1,
    // An endpoint without a node is never local, not even to a proxy without a name.
    areLocal: traits.map(({ nodeName }) => nodeName !== undefined && nodeName === ownNode),
    nodes: usesNodes
      ? traits.map(({ nodeName }) => (nodeName === ownNode ? undefined : nodeName))
      : undefined,
    areTerminating: traits.map(({ isReady, isTerminating }) => !isReady && isTerminating),
  };
}
