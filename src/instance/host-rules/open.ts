// SPDX-License-Identifier: Apache-2.0
// Composes who serves packets: the follower of the node's rules, and when what begins is left to them.

import type { Agent, SyncFacts } from '../../agent/agent.ts';
import type { ComposedDataplane } from '../../engines/dataplane.ts';
import type { Logger } from '../../log.ts';
import { readHostRules, rulesMark } from '../../on-node/read/host-rules.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import type { NodeAddresses } from '../../sys/netlink/node-addresses.ts';
import type { OnNode } from '../on-node/looking.ts';
import { followHostRules, type HostRulesFollower, type HostRulesSettings } from './host-rules.ts';

/** Parts that follow who serves packets. */
export interface FollowsPackets {
  /** Rules serve them now, or eBPF again: a full sync follows. */
  packetsMoved(): void;
}

/** undefined: packets are served as they are, whatever filters the node has, or by rules from the start. */
export function hostRulesOf(
  hostRules: HostRulesSettings | undefined,
  dataplane: ComposedDataplane,
  {
    agent,
    addresses,
    onNode,
    log,
    parts,
  }: {
    readonly agent: Agent;
    readonly addresses: NodeAddresses;
    readonly onNode: OnNode;
    readonly log: Logger;
    readonly parts: readonly FollowsPackets[];
  },
): HostRulesFollower | undefined {
  if (hostRules === undefined || dataplane.installation.fallback !== undefined) return undefined;
  const move = async (reason: string | undefined): Promise<boolean> => {
    if (dataplane.movePackets === undefined) return false;
    const why = reason ?? 'no filter of this node needs to see the packets of Services first';
    log.info({ reason: why, by: reason === undefined ? 'eBPF' : 'rules' }, 'packets move');
    const hasMoved = await dataplane.movePackets(reason);
    // Nothing has been served yet: no connection waits for the rules.
    if (hasMoved && reason !== undefined && !agent.state().isReady) dataplane.leaveNewPackets(true);
    if (hasMoved) for (const part of parts) part.packetsMoved();
    return hasMoved;
  };
  return followHostRules({
    ...hostRules,
    ...{ read: readHostRules, mark: rulesMark, move, moved: () => agent.packetsMoved() },
    plan: () => agent.state().plan,
    localAddresses: () => addresses.current().map(({ address }) => address),
    changed: () => onNode.changed(),
    ...{ clock: SYSTEM_CLOCK, log },
  });
}

/**
 * Packets that begin a connection come back to eBPF once every Service has had its turn. One that fails has no frontend there: the
 * former rules serve it until the hand-over. Nobody writes these any more, and no other Service may wait for it.
 */
export function takesPacketsBack(
  dataplane: ComposedDataplane,
): FollowsPackets & { synced(facts: Pick<SyncFacts, 'isFull'>): void } {
  let isDue = true;
  return {
    packetsMoved: () => {
      isDue = true;
    },
    synced: ({ isFull }) => {
      if (!isDue || !isFull || dataplane.installation.fallback !== undefined) return;
      isDue = false;
      dataplane.leaveNewPackets(false);
    },
  };
}
