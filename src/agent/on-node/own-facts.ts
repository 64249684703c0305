// SPDX-License-Identifier: Apache-2.0
// What this agent itself does on the node, as far as findings depend on it. Pure.
import type { Capabilities } from '../../dataplane/capabilities.ts';
import type { OwnFacts } from '../../on-node/facts.ts';
import type { Plan } from '../../plan/types.ts';

export interface OwnParts {
  /** In the order in which they are asked. */
  readonly dataplanes: readonly Capabilities[];
  readonly plan: Plan | undefined;
  readonly uplinks: readonly string[];
  /** iptables.masqueradeBit. */
  readonly masqueradeBit: number;
}

export function ownFacts({ dataplanes, plan, uplinks, masqueradeBit }: OwnParts): OwnFacts {
  const packets = dataplanes.find(({ serves }) => serves.packet !== undefined)?.dataplane;
  const hasRules = dataplanes.some(({ dataplane }) => dataplane === 'iptables');
  return {
    packets: packets === 'bpf' || packets === 'iptables' ? packets : 'none',
    markBit: hasRules ? masqueradeBit : undefined,
    uplinks,
    clusterIps: clusterIpsOf(plan),
  };
}

function clusterIpsOf(plan: Plan | undefined): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [key, { ports }] of plan?.services ?? []) {
    for (const { frontends } of ports) {
      for (const { kind, address } of frontends) {
        if (kind === 'ClusterIP' && address !== undefined) found.set(address, key);
      }
    }
  }
  return found;
}
