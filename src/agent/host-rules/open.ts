// SPDX-License-Identifier: Apache-2.0
// Composes who serves packets: the follower of the node's rules, and when what begins is left to them.
import type { ComposedDataplane } from '../../dataplane/dataplane.ts';
import type { Logger } from '../../log.ts';
import { readHostRules, rulesMark } from '../../on-node/read/host-rules.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import type { NodeAddresses } from '../../sys/netlink/node-addresses.ts';
import type { Agent, SyncFacts } from '../agent.ts';
import type { OnNode } from '../on-node/looking.ts';
import { followHostRules, type HostRulesFollower, type HostRulesSettings } from './host-rules.ts';

/** Who serves packets, and how that is changed. */
export interface PacketChoice {
  /** Why rules do; undefined: eBPF. */
  readonly byRules: string | undefined;
  /** Nothing has been served yet: no connection waits for the rules. */
  readonly isFirst: boolean;
  /** From the next start on, which this begins. */
  readonly move: (byRules: string | undefined) => void;
}

export function hostRulesOf(
  hostRules: HostRulesSettings | undefined,
  { byRules, move }: PacketChoice,
  {
    agent,
    addresses,
    onNode,
    log,
  }: {
    readonly agent: Agent;
    readonly addresses: NodeAddresses;
    readonly onNode: OnNode;
    readonly log: Logger;
  },
): HostRulesFollower | undefined {
  if (hostRules === undefined) return undefined;
  return followHostRules({
    ...hostRules,
    ...{ read: readHostRules, mark: rulesMark, current: byRules, move },
    plan: () => agent.state().plan,
    localAddresses: () => addresses.current().map(({ address }) => address),
    changed: () => onNode.changed(),
    ...{ clock: SYSTEM_CLOCK, log },
  });
}

/**
 * After the first sync that has programmed everything: what begins goes where it is served, not before the rules are there,
 * nor longer than they are to be.
 */
export function leavesPacketsOf(dataplane: ComposedDataplane): (facts: SyncFacts) => void {
  let isDone = false;
  return ({ isComplete }) => {
    if (isDone || !isComplete) return;
    isDone = true;
    dataplane.leaveNewPackets(dataplane.installation.fallback !== undefined);
  };
}
