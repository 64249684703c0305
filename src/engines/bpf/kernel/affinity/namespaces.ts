// SPDX-License-Identifier: Apache-2.0
// Which sockets are behind which addresses: of the pods of this node, as far as their network namespaces can be found and
// entered (CAP_SYS_ADMIN), and of the node.
import { canonicalAddress } from '../../../../lib/ip.ts';
import { netnsAddresses, netnsCookie } from '../../../../sys/native.ts';
import { netnsPaths } from '../../../../sys/netns-paths.ts';
import type { SocketClient } from '../../affinity/records.ts';
import { inNetns, type NetnsOption } from '../stale-sockets/namespace.ts';

export async function socketClients(): Promise<readonly SocketClient[]> {
  const found: SocketClient[] = [];
  for (const path of (await netnsPaths()).values()) {
    // One that is gone, or may not be entered, is a client that gets an endpoint anew.
    const client = await inNetns(path, async (netns) => clientIn(netns)).catch(() => undefined);
    if (client !== undefined) found.push(client);
  }
  return found;
}

/** undefined: the kernel does not tell. */
function clientIn(netns: NetnsOption): SocketClient | undefined {
  const cookie = netnsCookie(netns);
  if (cookie === undefined) return undefined;
  const addresses = netnsAddresses(netns)
    .flatMap((address) => canonicalAddress(address) ?? [])
    .filter((address) => !address.startsWith('fe80:'));
  return { cookie, addresses };
}
