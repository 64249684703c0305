// SPDX-License-Identifier: Apache-2.0
// What else is on the node, for a probe: it knows no Services and no agent, so it tells what there is.
import { resolve } from 'node:path';
import { reasonOf } from '../../errors.ts';
import { couldNotTell } from '../../on-node/could-not-tell.ts';
import type { Finding } from '../../on-node/finding.ts';
import { findingsOf } from '../../on-node/findings.ts';
import { uplinksIn } from '../../on-node/read/devices.ts';
import { createFactsReader } from '../../on-node/read/facts.ts';
import { findCgroup2 } from '../../sys/cgroup.ts';
import { readNetwork } from '../../sys/netlink/follow.ts';

/** Of the network namespace of this thread. Never throws: without the addon, or the rights, it could not tell. */
export function findOnNode(cniFolder: string, cgroupRoot: string | undefined): readonly Finding[] {
  try {
    const network = readNetwork();
    const cgroup = cgroupRoot ?? findCgroup2();
    const read = createFactsReader({
      network: () => network,
      ...{ cgroup, cniFolder: resolve(cniFolder) },
    });
    return findingsOf(read(), {
      ...{ packets: undefined, markBit: undefined, sockets: undefined },
      uplinks: uplinksIn(network),
      ...{ clusterIps: new Map(), listenedTo: new Map() },
    });
  } catch (error) {
    return [couldNotTell('other-programs', reasonOf(error))];
  }
}
