// SPDX-License-Identifier: Apache-2.0
// Composes the look at what else is on the node.

import type { Agent } from '../../agent/agent.ts';
import type { ComposedDataplane } from '../../engines/dataplane.ts';
import type { Logger } from '../../log.ts';
import type { Finding } from '../../on-node/finding.ts';
import { uplinksIn } from '../../on-node/read/devices.ts';
import { createFactsReader } from '../../on-node/read/facts.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import type { NetworkFollower } from '../../sys/netlink/network.ts';
import { createOnNode, type OnNode } from './looking.ts';
import { ownFacts } from './own-facts.ts';

/** Where the CNI has its files, and the bit by which rules say "masquerade". */
export interface OnNodeSettings {
  readonly cniFolder: string;
  readonly masqueradeBit: number;
  /** Names of the programs that this instance has attached, by id. */
  readonly ownPrograms: () => ReadonlyMap<number, string>;
}

export function openOnNode(
  { cniFolder, masqueradeBit, ownPrograms }: OnNodeSettings,
  {
    network,
    agent,
    dataplane,
    more,
    log,
  }: {
    readonly network: NetworkFollower;
    readonly agent: Agent;
    readonly dataplane: ComposedDataplane;
    readonly more: () => readonly Finding[];
    readonly log: Logger;
  },
): OnNode {
  const cgroup = dataplane.installation.cgroupRoot;
  const onNode = createOnNode({
    read: createFactsReader({
      network: () => network.current(),
      ...{ cgroup, cniFolder, ownPrograms },
    }),
    own: () =>
      ownFacts({
        ...{ dataplanes: dataplane.dataplanes, plan: agent.state().plan, masqueradeBit },
        scope: dataplane.counters().scope,
        uplinks: uplinksIn(network.current()),
      }),
    more,
    clock: SYSTEM_CLOCK,
    log,
  });
  network.listen(() => onNode.changed());
  return onNode;
}
