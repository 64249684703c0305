// SPDX-License-Identifier: Apache-2.0
// What a new connection meets, by who opens it: which set, which verdict while it is empty, whether the
// source is masqueraded. The table below is the one that
// kube-proxy's syncProxyRules writes for each service port; C = cluster, L = local, M = masquerade:
//
//   frontend, policy      pod      host     outside
//   ClusterIP, Cluster    C        C  M¹    C  M¹     ¹ if a local detector is configured
//   ClusterIP, Local      L        L  M¹    L  M¹       (masqueradeAll: every position)
//   external,  Cluster    C  M     C  M     C  M
//   external,  Local      C        C  M     L         (no detector: there are no pods, all are outside)
//
// Floor 2.
import type { TrafficPolicy } from '../model/types.ts';
import type { ClientPosition, Path, Scope } from './types.ts';

export type Paths = Readonly<Record<ClientPosition, Path>>;

export interface PathInputs {
  readonly policy: TrafficPolicy;
  readonly hasDetector: boolean;
  readonly masqueradeAll: boolean;
  readonly isAnyUsable: boolean;
}

/** A Service that lives elsewhere is silent here; one that lives nowhere is refused at once (KEP-2086). */
function path(scope: Scope, masquerade: boolean, isAnyUsable: boolean): Path {
  return {
    scope,
    whenEmpty: scope === 'local' && isAnyUsable ? 'drop' : 'reject',
    masquerade,
  };
}

/** Internal traffic: the set is the same for everyone (KEP-2086). */
export function clusterIpPaths(inputs: PathInputs): Paths {
  const { hasDetector, masqueradeAll, isAnyUsable } = inputs;
  const scope = inputs.policy === 'Local' ? 'local' : 'cluster';
  const others = path(scope, masqueradeAll || hasDetector, isAnyUsable);
  const pod = hasDetector ? path(scope, masqueradeAll, isAnyUsable) : others;
  return { pod, host: others, outside: others };
}

/**
 * External addresses. With policy Local a pod or this host is sent around the policy, as if it had left the
 * cluster and come back through the balancer; masqueradeAll says nothing here.
 */
export function externalPaths(inputs: PathInputs): Paths {
  const { hasDetector, isAnyUsable } = inputs;
  if (inputs.policy === 'Cluster') {
    const everyone = path('cluster', true, isAnyUsable);
    return { pod: everyone, host: everyone, outside: everyone };
  }
  const outside = path('local', false, isAnyUsable);
  return {
    pod: hasDetector ? path('cluster', false, isAnyUsable) : outside,
    host: path('cluster', true, isAnyUsable),
    outside,
  };
}
