// SPDX-License-Identifier: Apache-2.0
// The traffic rule for each client position: which set, which verdict while it is empty, whether the source
// is masqueraded. The table is what kube-proxy's syncProxyRules writes for each service port; C = cluster,
// L = local, M = masquerade:
//   frontend, policy      pod      host     outside
//   ClusterIP, Cluster    C        C  M¹    C  M¹     ¹ if a local detector is configured
//   ClusterIP, Local      L        L  M¹    L  M¹       (masqueradeAll: every position)
//   external,  Cluster    C  M     C  M     C  M
//   external,  Local      C        C  M     L         (no detector: there are no pods, all are outside)
// Clients from outside that are masqueraded at external addresses may be served by direct return instead, by IPIP
// except at NodePorts.
import type { TrafficPolicy } from '../../model/types.ts';
import type { ClientPosition, Frontend, Scope, TrafficRule } from '../types.ts';

export const CLIENT_POSITIONS: readonly ClientPosition[] = ['pod', 'host', 'outside'];

export type TrafficRules = Readonly<Record<ClientPosition, TrafficRule>>;

/** What a request travels in to who answers it directly: another node, or a real server. */
export type Tunnel = 'geneve' | 'ipip';

export interface RuleInputs {
  readonly hasDetector: boolean;
  readonly masqueradeAll: boolean;
  /** True if any node has an endpoint: then an empty local set means drop, else reject. */
  readonly isAnyUsable: boolean;
  /** The service port asks for direct return, in this tunnel. */
  readonly tunnel: Tunnel | undefined;
}

/** Every possible rule, made once: equal rules are the same object. */
const RULES: readonly TrafficRule[] = (['cluster', 'local'] as const).flatMap((scope) =>
  (['reject', 'drop'] as const).flatMap((whenEmpty) =>
    [false, true].map((masquerade) => ({ scope, whenEmpty, masquerade })),
  ),
);

const GENEVE: TrafficRule = {
  scope: 'cluster',
  whenEmpty: 'reject',
  masquerade: true,
  directReturn: true,
};

const DIRECT_RETURN: Readonly<Record<Tunnel, TrafficRule>> = {
  geneve: GENEVE,
  ipip: { ...GENEVE, ipip: true },
};

function rule(scope: Scope, masquerade: boolean, isAnyUsable: boolean): TrafficRule {
  const isLocal = scope === 'local';
  const index = (isLocal ? 4 : 0) + (isLocal && isAnyUsable ? 2 : 0) + (masquerade ? 1 : 0);
  return RULES[index] ?? { scope, whenEmpty: 'reject', masquerade };
}

/** Filled on demand; bounded by the ways to choose three of the rules above. */
const KNOWN: TrafficRules[] = [];

/** Equal results are the same object, as the rules are. */
function rulesOf(pod: TrafficRule, host: TrafficRule, outside: TrafficRule): TrafficRules {
  const isMeant = (known: TrafficRules): boolean =>
    known.pod === pod && known.host === host && known.outside === outside;
  const found = KNOWN.find(isMeant);
  if (found !== undefined) return found;
  const made = { pod, host, outside };
  KNOWN.push(made);
  return made;
}

/** Internal traffic: the set is the same for everyone (KEP-2086). */
export function clusterIpRules(policy: TrafficPolicy, inputs: RuleInputs): TrafficRules {
  const { hasDetector, masqueradeAll, isAnyUsable } = inputs;
  const scope = policy === 'Local' ? 'local' : 'cluster';
  const others = rule(scope, masqueradeAll || hasDetector, isAnyUsable);
  const pod = hasDetector ? rule(scope, masqueradeAll, isAnyUsable) : others;
  return rulesOf(pod, others, others);
}

/**
 * External addresses. With policy Local a pod or this host bypasses the policy, as if it had left the
 * cluster and come back through the load balancer; masqueradeAll does not apply.
 */
export function externalRules(policy: TrafficPolicy, inputs: RuleInputs): TrafficRules {
  const { hasDetector, isAnyUsable, tunnel } = inputs;
  if (policy === 'Cluster') {
    const everyone = rule('cluster', true, isAnyUsable);
    return rulesOf(everyone, everyone, tunnel === undefined ? everyone : DIRECT_RETURN[tunnel]);
  }
  const outside = rule('local', false, isAnyUsable);
  return rulesOf(
    hasDetector ? rule('cluster', false, isAnyUsable) : outside,
    rule('cluster', true, isAnyUsable),
    outside,
  );
}

/**
 * Whether a masqueraded client may keep its address if the chosen backend is on this node: at external
 * addresses, where masquerading only brings the replies of other nodes back through this one. A ClusterIP's
 * clients are masqueraded for every backend, as in kube-proxy.
 */
export const mayKeepLocalClient = ({ kind }: Pick<Frontend, 'kind'>): boolean =>
  kind !== 'ClusterIP';
