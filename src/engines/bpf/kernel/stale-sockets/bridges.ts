// SPDX-License-Identifier: Apache-2.0
// The subnets of this node's bridges (cbr0, cni0, docker0). Their pods reach each other without the node's routes: datagrams to
// an address on the same bridge go to who has, or had, the address, and not to the node. Pure.
import { BlockList } from 'node:net';
import type { Network } from '../../../../sys/netlink/network.ts';

const KINDS: readonly string[] = ['bridge', 'openvswitch'];

export function bridgeSubnets({
  links,
  addresses,
}: Pick<Network, 'links' | 'addresses'>): BlockList {
  const subnets = new BlockList();
  for (const [ifindex, link] of links) {
    if (!KINDS.includes(link.kind ?? '')) continue;
    for (const { address, prefixLength, family } of addresses.get(ifindex) ?? []) {
      subnets.addSubnet(address, prefixLength, family === 'IPv4' ? 'ipv4' : 'ipv6');
    }
  }
  return subnets;
}
