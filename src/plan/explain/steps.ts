// SPDX-License-Identifier: Apache-2.0
// The steps of an explanation that come after the frontend is known, in words for people.

import { algorithmFor, BALANCING, weightFor } from '../decide/balancing.ts';
import { forwardingOf, isForwarded } from '../decide/forwarding.ts';
import { mayKeepLocalClient } from '../decide/traffic-rules.ts';
import { wantsIpip } from '../direct-return/asked.ts';
import { directPath } from '../direct-return/peers.ts';
import { isRealServer } from '../direct-return/real-servers.ts';
import type {
  Backend,
  ClientPosition,
  Frontend,
  NodeFacts,
  Scope,
  ServicePortPlan,
  TrafficRule,
} from '../types.ts';
import type { ExplainStep } from './explanation.ts';

const WHO: Readonly<Record<ClientPosition, string>> = {
  pod: 'pods of the cluster',
  host: 'processes of this node',
  outside: 'clients from outside',
};

/** Which set, and by which policy (KEP-2086 for internal traffic). */
export function policyStep(frontend: Frontend, position: ClientPosition): ExplainStep {
  const isInternal = frontend.kind === 'ClusterIP';
  const rule = isInternal ? 'internalTrafficPolicy' : 'externalTrafficPolicy';
  const policy = frontend.rules.outside.scope === 'local' ? 'Local' : 'Cluster';
  const { scope } = frontend.rules[position];
  if (policy === 'Local' && scope === 'cluster') {
    const reason = `${policy}, but ${WHO[position]} go around it, as if they came back from the balancer`;
    return { rule, result: 'all nodes', reason };
  }
  return scope === 'local'
    ? { rule, result: 'this node', reason: 'Local: only endpoints of this node' }
    : { rule, result: 'all nodes', reason: 'Cluster: endpoints of all nodes' };
}

export function topologyStep(port: ServicePortPlan, scope: Scope): readonly ExplainStep[] {
  if (scope === 'local') return [];
  const { topology, topologyChoice: choice } = port;
  if (topology === undefined) {
    const reason = 'fairlead.io/topology or its default: hints of endpoints do not count';
    return choice === 'ignore' ? [{ rule: 'topology', result: choice, reason }] : [];
  }
  const [level, own] = topology === 'same-node' ? ['node', 'node'] : ['zone', "node's zone"];
  const reason =
    choice === undefined
      ? `every ready endpoint has a ${level} hint, and at least one names this ${own}`
      : `${choice}: the ${level} of every ready endpoint is known, and at least one is of this ${own}`;
  return [{ rule: 'topology', result: topology, reason }];
}

const count = (many: number, what: string): string => `${many} ${what}${many === 1 ? '' : 's'}`;

export function endpointsStep(port: ServicePortPlan, trafficRule: TrafficRule): ExplainStep {
  const rule = 'endpoints';
  const backends = port[trafficRule.scope];
  const where = trafficRule.scope === 'local' ? ' on this node' : '';
  const [first] = backends;
  if (first !== undefined) {
    const reason = first.isTerminating
      ? `none is ready${where}, so those that still serve while they terminate are used`
      : `ready${where}`;
    return { rule, result: count(backends.length, 'backend'), reason };
  }
  return trafficRule.whenEmpty === 'drop'
    ? { rule, result: 'drop', reason: 'none on this node, but other nodes have some' }
    : {
        rule,
        result: 'reject',
        reason:
          port.emptyNote?.reason ?? 'no endpoint is ready, and none serves while it terminates',
      };
}

/** How one of several is chosen, with the share of each if they differ. */
export function algorithmStep(
  port: ServicePortPlan,
  frontend: Frontend,
  position: ClientPosition,
  backends: readonly Backend[],
): readonly ExplainStep[] {
  if (backends.length < 2) return [];
  const algorithm = algorithmFor(port, frontend, position);
  const weights = backends.map(weightFor(algorithm));
  const isEven = weights.every((weight) => weight === weights[0]);
  const shares = isEven ? '' : `, by weights ${weights.join(':')}`;
  return [
    { rule: 'algorithm', result: algorithm, reason: `${BALANCING[algorithm].choice}${shares}` },
  ];
}

/** Why the source address stays or goes, before any hairpin. */
export function masqueradeStep(frontend: Frontend, position: ClientPosition): ExplainStep {
  const rule = 'masquerade';
  const { masquerade } = frontend.rules[position];
  if (frontend.kind === 'ClusterIP') {
    if (!masquerade) {
      const reason =
        position === 'pod'
          ? 'the client is a pod of the cluster'
          : 'no local detector is configured';
      return { rule, result: 'no', reason };
    }
    const reason = frontend.rules.pod.masquerade
      ? 'masqueradeAll is set'
      : 'the client is not a pod of the cluster, so replies must come back through this node';
    return { rule, result: 'yes', reason };
  }
  if (position === 'outside' && frontend.rules.outside.directReturn) {
    const reason = 'unless the answer need not come back through this node: see forwarding';
    return { rule, result: 'if need be', reason };
  }
  if (frontend.rules.outside.masquerade) {
    const reason = 'externalTrafficPolicy Cluster: replies must come back through this node';
    return { rule, result: 'yes', reason };
  }
  return masquerade
    ? { rule, result: 'yes', reason: `${WHO[position]} may be sent to other nodes` }
    : {
        rule,
        result: 'no',
        reason: 'externalTrafficPolicy Local keeps the address of the client',
      };
}

/** A pod that is sent to itself must not see its own address as its peer. */
export function hairpinStep(
  hairpins: readonly Backend[],
  backends: readonly Backend[],
  trafficRule: TrafficRule,
): readonly ExplainStep[] {
  if (hairpins.length === 0 || trafficRule.masquerade) return [];
  const isAlways = hairpins.length === backends.length;
  return [
    {
      rule: 'hairpin',
      result: isAlways ? 'yes' : 'if chosen',
      reason: 'the client is itself a backend: sent to itself, it sees the address of the node',
    },
  ];
}

/** Where a dataplane may do better than the rule: a backend on this node can answer the client directly. */
export function keptAddressStep(
  frontend: Frontend,
  backends: readonly Backend[],
  trafficRule: TrafficRule,
): readonly ExplainStep[] {
  const isOwed =
    mayKeepLocalClient(frontend) && trafficRule.masquerade && trafficRule.scope === 'cluster';
  if (!isOwed || !backends.some(({ isLocal }) => isLocal)) return [];
  return [
    {
      rule: 'local-backend',
      result: 'address kept',
      reason:
        'the kernel dataplane leaves the client its address if the chosen backend is on this node',
    },
  ];
}

/** Which way requests of clients from outside go to other nodes, where the Service asks for another than SNAT. */
export function forwardingStep(
  port: ServicePortPlan,
  frontend: Frontend,
  backends: readonly Backend[],
  node: NodeFacts,
): readonly ExplainStep[] {
  const forwarding = forwardingOf(port);
  if (forwarding === 'snat' || !isForwarded(frontend)) return [];
  if (frontend.rules.outside.directReturn !== true) {
    const reason = `${forwarding}: ${reasonForSnat(port, frontend)}`;
    return [{ rule: 'forwarding', result: 'snat', reason }];
  }
  const remote = backends.filter(({ isLocal }) => !isLocal);
  const vip = frontend.address ?? 'the address it was sent to';
  const ways = new Set(remote.map((backend) => wayText(backend, port, node, vip)));
  const reason = [...ways].join('; ') || 'every backend is on this node';
  return [{ rule: 'forwarding', result: forwarding, reason }];
}

function reasonForSnat({ protocol, forwarding }: ServicePortPlan, { kind }: Frontend): string {
  if (forwarding !== 'ipip' || protocol === 'SCTP')
    return `${protocol} to other nodes is masqueraded`;
  return kind === 'NodePort'
    ? 'no real server has the address of a NodePort: it is masqueraded'
    : 'an endpoint has another port, so that all is masqueraded: see `fairlead status`';
}

function wayText(backend: Backend, port: ServicePortPlan, node: NodeFacts, vip: string): string {
  const { family } = port;
  if (wantsIpip(port)) {
    return isRealServer(backend)
      ? `in IPIP to ${backend.address}, which answers the client from ${vip}`
      : `masqueraded for ${backend.address}: it is on Node ${backend.node}, no real server`;
  }
  const path = directPath(node, backend, family);
  return 'reason' in path
    ? `masqueraded for ${backend.address}: ${path.reason}`
    : `in Geneve to Node ${path.node} (${path.address}), which answers the client from ${vip}`;
}
