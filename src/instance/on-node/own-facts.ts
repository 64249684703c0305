// SPDX-License-Identifier: Apache-2.0
// What this agent itself does on the node, as far as findings depend on it. Pure.
import type { Capabilities } from '../../engines/capabilities.ts';
import type { ScopeView } from '../../engines/snapshot.ts';
import type { OwnFacts } from '../../on-node/facts.ts';
import { type FrontendOnNode, frontendsOnNode } from '../../plan/node-sockets/frontends.ts';
import type { Plan } from '../../plan/types.ts';

export interface OwnParts {
  /** In the order in which they are asked. */
  readonly dataplanes: readonly Capabilities[];
  readonly plan: Plan | undefined;
  /** Absent: no sockets are served. */
  readonly scope: Pick<ScopeView, 'used'> | undefined;
  readonly uplinks: readonly string[];
  /** iptables.masqueradeBit. */
  readonly masqueradeBit: number;
}

export function ownFacts({ dataplanes, plan, scope, uplinks, masqueradeBit }: OwnParts): OwnFacts {
  const packets = dataplanes.find(({ serves }) => serves.outside !== undefined)?.dataplane;
  const hasRules = dataplanes.some(({ dataplane }) => ['iptables', 'nftables'].includes(dataplane));
  const onNode = plan === undefined ? [] : [...frontendsOnNode(plan)];
  return {
    packets:
      packets === 'nftables'
        ? 'iptables'
        : packets === 'bpf' || packets === 'iptables'
          ? packets
          : 'none',
    markBit: hasRules ? masqueradeBit : undefined,
    sockets: scope?.used ?? 'none',
    uplinks,
    clusterIps: clusterIpsOf(plan, onNode),
    listenedTo: listenedTo(onNode),
  };
}

/** @param onNode with a listener at every port of a ClusterIP no frontend is left */
function clusterIpsOf(
  plan: Plan | undefined,
  onNode: readonly FrontendOnNode[],
): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [key, { ports }] of plan?.services ?? []) {
    for (const { frontends } of ports) {
      for (const { kind, address } of frontends) {
        if (kind === 'ClusterIP' && address !== undefined) found.set(address, key);
      }
    }
  }
  for (const { kind, address, service } of onNode) {
    if (kind === 'ClusterIP') found.set(address, service);
  }
  return found;
}

function listenedTo(onNode: readonly FrontendOnNode[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { address, port, protocol, isListenedTo } of onNode) {
    if (!isListenedTo) continue;
    found.set(address, [...(found.get(address) ?? []), `${port}/${protocol}`]);
  }
  return found;
}
