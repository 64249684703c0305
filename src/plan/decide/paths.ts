// SPDX-License-Identifier: Apache-2.0
// What a new connection meets, by who opens it: which set, which verdict while it is empty, whether the
// source is masqueraded. The table below is the one that
// kube-proxy's syncProxyRules writes for each service port; C = cluster, L = local, M = masquerade:
//   frontend, policy      pod      host     outside
//   ClusterIP, Cluster    C        C  M¹    C  M¹     ¹ if a local detector is configured
//   ClusterIP, Local      L        L  M¹    L  M¹       (masqueradeAll: every position)
//   external,  Cluster    C  M     C  M     C  M
//   external,  Local      C        C  M     L         (no detector: there are no pods, all are outside)
import type { TrafficPolicy } from '../../model/types.ts';
import type { ClientPosition, Path, Scope } from '../types.ts';

export type Paths = Readonly<Record<ClientPosition, Path>>;

export interface PathInputs {
  readonly hasDetector: boolean;
  readonly masqueradeAll: boolean;
  /** Is there an endpoint anywhere? A Service that lives elsewhere is silent here, one that lives nowhere refused. */
  readonly isAnyUsable: boolean;
}

/** Every path there is, made once: equal paths are the same object. */
const PATHS: readonly Path[] = (['cluster', 'local'] as const).flatMap((scope) =>
  (['reject', 'drop'] as const).flatMap((whenEmpty) =>
    [false, true].map((masquerade) => ({ scope, whenEmpty, masquerade })),
  ),
);

function path(scope: Scope, masquerade: boolean, isAnyUsable: boolean): Path {
  const isLocal = scope === 'local';
  const index = (isLocal ? 4 : 0) + (isLocal && isAnyUsable ? 2 : 0) + (masquerade ? 1 : 0);
  return PATHS[index] ?? { scope, whenEmpty: 'reject', masquerade };
}

/** Filled as they are asked for: no more than the ways to choose three of the paths above. */
const KNOWN: Paths[] = [];

/** Like the paths themselves: equal ones are the same object. */
function pathsOf(pod: Path, host: Path, outside: Path): Paths {
  const isMeant = (known: Paths): boolean =>
    known.pod === pod && known.host === host && known.outside === outside;
  const found = KNOWN.find(isMeant);
  if (found !== undefined) return found;
  const made = { pod, host, outside };
  KNOWN.push(made);
  return made;
}

/** Internal traffic: the set is the same for everyone (KEP-2086). */
export function clusterIpPaths(policy: TrafficPolicy, inputs: PathInputs): Paths {
  const { hasDetector, masqueradeAll, isAnyUsable } = inputs;
  const scope = policy === 'Local' ? 'local' : 'cluster';
  const others = path(scope, masqueradeAll || hasDetector, isAnyUsable);
  const pod = hasDetector ? path(scope, masqueradeAll, isAnyUsable) : others;
  return pathsOf(pod, others, others);
}

/**
 * External addresses. With policy Local a pod or this host is sent around the policy, as if it had left the
 * cluster and come back through the balancer; masqueradeAll says nothing here.
 */
export function externalPaths(policy: TrafficPolicy, inputs: PathInputs): Paths {
  const { hasDetector, isAnyUsable } = inputs;
  if (policy === 'Cluster') {
    const everyone = path('cluster', true, isAnyUsable);
    return pathsOf(everyone, everyone, everyone);
  }
  const outside = path('local', false, isAnyUsable);
  return pathsOf(
    hasDetector ? path('cluster', false, isAnyUsable) : outside,
    path('cluster', true, isAnyUsable),
    outside,
  );
}
