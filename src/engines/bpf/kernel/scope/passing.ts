// SPDX-License-Identifier: Apache-2.0
// Whose datagrams the packet programs see: not those that stay on a bridge with the backend, nor those of a pod that leaves
// by a device without programs (macvlan, ipvlan, a device that --devices leaves out).
import { readNetwork } from '../../../../sys/netlink/follow.ts';
import { OWN_NETNS } from '../../../../sys/netns-paths.ts';
import { type PodDevice, wayOf } from '../../scope/judge.ts';
import { isOnBridge } from '../../stale-sockets/keeping.ts';
import type { Paths } from '../../stale-sockets/pass.ts';
import type { StaleSocket } from '../../stale-sockets/socket.ts';
import { bridgeSubnets } from '../stale-sockets/bridges.ts';
import { inNetns } from '../stale-sockets/namespace.ts';
import { devicesIn } from './look.ts';

/** Of a namespace that cannot be entered it is not known: its pod is taken for one like most. */
export async function passing(
  paths: Paths,
  devices: readonly PodDevice[],
): Promise<(socket: StaleSocket) => boolean> {
  const node = readNetwork();
  const bridges = bridgeSubnets(node);
  const unserved = new Set<number>();
  for (const [inode, path] of paths) {
    if (path === OWN_NETNS) continue;
    const way = await inNetns(path, async ({ netns = -1 }) =>
      wayOf(devicesIn(netns), node, devices),
    ).catch(() => undefined);
    if (way === 'unserved') unserved.add(inode);
  }
  return (socket) => !unserved.has(socket.netns) && !isOnBridge(socket, bridges);
}
