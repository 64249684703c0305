// SPDX-License-Identifier: Apache-2.0
// What else is on the node, for a probe: it knows no Services and no agent, so it tells what there is.
import { resolve } from 'node:path';
import { reasonOf } from '../../errors.ts';
import { couldNotTell } from '../../on-node/could-not-tell.ts';
import type { Finding } from '../../on-node/finding.ts';
import { findingsOf } from '../../on-node/findings.ts';
import { type Obstacle, possibleObstacles } from '../../on-node/netfilter/obstacle.ts';
import { unreadFindings } from '../../on-node/netfilter/unread.ts';
import { uplinksIn } from '../../on-node/read/devices.ts';
import { createFactsReader } from '../../on-node/read/facts.ts';
import { readHostRules } from '../../on-node/read/host-rules.ts';
import { findCgroup2 } from '../../sys/cgroup.ts';
import { readNetwork } from '../../sys/netlink/follow.ts';

/** Of the network namespace of this thread. Never throws: without the addon, or the rights, it could not tell. */
export async function findOnNode(
  cniFolder: string,
  cgroupRoot: string | undefined,
): Promise<readonly Finding[]> {
  const filters = await filterFindings();
  try {
    const network = readNetwork();
    const cgroup = cgroupRoot ?? findCgroup2();
    const read = createFactsReader({
      network: () => network,
      ...{ cgroup, cniFolder: resolve(cniFolder) },
    });
    const own = {
      ...{ packets: undefined, markBit: undefined, sockets: undefined },
      uplinks: uplinksIn(network),
      ...{ clusterIps: new Map(), listenedTo: new Map() },
    };
    return findingsOf(read(), own, filters);
  } catch (error) {
    return [...filters, couldNotTell('other-programs', reasonOf(error))];
  }
}

async function filterFindings(): Promise<readonly Finding[]> {
  try {
    const rules = await readHostRules();
    return [
      ...possibleObstacles(rules).map(possibleFinding),
      ...unreadFindings(rules.unread ?? []),
    ];
  } catch (error) {
    const reason = `packet filters: ${reasonOf(error)}`;
    return [couldNotTell('forward', reason), couldNotTell('host-firewall', reason)];
  }
}

/** What a start makes of it depends on its engine. */
const possibleFinding = ({ kind: topic, rule: what }: Obstacle): Finding => ({
  ...{ topic, what, breaksServices: false },
  consequence: `${CONSEQUENCES[topic]}; by --engine auto, rules serve packets then`,
});

const CONSEQUENCES = {
  forward: 'packets to pods that eBPF has translated would be dropped',
  'host-firewall': 'it may close NodePorts, and eBPF would translate packets before it',
} as const;
