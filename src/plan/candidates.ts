// SPDX-License-Identifier: Apache-2.0
// The candidate sets of one service port: `cluster`, `local`, `serving`. Each falls back to endpoints
// that terminate but still serve only when it has nothing ready (KEP-1669), and independently of the other.
// Source: CategorizeEndpoints in kube-proxy's topology.go. Floor 2.
import type { Candidate } from './endpoints.ts';
import { isAllowedBy, type Place, type TopologyMode, topologyMode } from './topology.ts';
import type { Backend } from './types.ts';

export interface CandidateSets {
  readonly cluster: readonly Backend[];
  readonly local: readonly Backend[];
  readonly serving: readonly Backend[];
  readonly topology: TopologyMode;
  /** Ready endpoints of this node, whatever the policies: what health checks count. */
  readonly readyLocal: readonly Backend[];
  /** Is there any endpoint that some node could use? Then an empty set is silence, not refusal. */
  readonly isAnyUsable: boolean;
}

export interface SetsWanted {
  readonly usesCluster: boolean;
  readonly usesLocal: boolean;
}

const NO_BACKENDS: readonly Backend[] = Object.freeze([]);

/** Linear. The sets share their Backend records. `candidates` are sorted, so the sets are. */
export function candidateSets(
  candidates: readonly Candidate[],
  wanted: SetsWanted,
  place: Place,
): CandidateSets {
  const ready: Candidate[] = [];
  const readyBackends: Backend[] = [];
  const fallback: Backend[] = [];
  const serving: Backend[] = [];
  for (const candidate of candidates) {
    const { endpoint } = candidate;
    if (!endpoint.isReady && !endpoint.isServing) continue;
    const backend = backendOf(candidate, place.nodeName);
    serving.push(backend);
    if (endpoint.isReady) {
      ready.push(candidate);
      readyBackends.push(backend);
    } else if (endpoint.isTerminating) {
      fallback.push(backend);
    }
  }
  const topology = wanted.usesCluster ? modeOf(ready, place) : undefined;
  const near =
    topology === undefined
      ? readyBackends
      : readyBackends.filter((_, at) => isNear(ready[at], topology, place));
  const readyLocal = readyBackends.filter(isLocal);
  return {
    cluster: wanted.usesCluster ? firstFilled(near, fallback) : NO_BACKENDS,
    local: wanted.usesLocal ? firstFilled(readyLocal, fallback.filter(isLocal)) : NO_BACKENDS,
    serving,
    topology,
    readyLocal,
    isAnyUsable: readyBackends.length > 0 || fallback.length > 0,
  };
}

const isLocal = (backend: Backend): boolean => backend.isLocal;

const firstFilled = (first: readonly Backend[], second: readonly Backend[]): readonly Backend[] =>
  first.length > 0 ? first : second;

const modeOf = (ready: readonly Candidate[], place: Place): TopologyMode =>
  topologyMode(
    ready.map((candidate) => candidate.endpoint),
    place,
  );

const isNear = (candidate: Candidate | undefined, mode: TopologyMode, place: Place): boolean =>
  candidate !== undefined && isAllowedBy(mode, candidate.endpoint, place);

function backendOf({ endpoint, port }: Candidate, nodeName: string): Backend {
  const { address, zone } = endpoint;
  // An endpoint without a node is never local, not even to a proxy without a name.
  const isLocalHere = endpoint.nodeName !== undefined && endpoint.nodeName === nodeName;
  const isTerminating = !endpoint.isReady && endpoint.isTerminating;
  const backend = { address, port, isLocal: isLocalHere, isTerminating };
  if (endpoint.nodeName === undefined) return zone === undefined ? backend : { ...backend, zone };
  return zone === undefined
    ? { address, port, isLocal: isLocalHere, isTerminating, nodeName: endpoint.nodeName }
    : { address, port, isLocal: isLocalHere, isTerminating, nodeName: endpoint.nodeName, zone };
}
