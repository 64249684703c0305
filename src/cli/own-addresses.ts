// SPDX-License-Identifier: Apache-2.0
// The addresses of this node, for commands.
import { followNetwork } from '../sys/netlink/follow.ts';
import { nodeAddressesOf } from '../sys/netlink/node-addresses.ts';

export function ownAddresses(): readonly string[] {
  const network = followNetwork();
  try {
    return nodeAddressesOf(network)
      .current()
      .map(({ address }) => address);
  } finally {
    network.close();
  }
}
