// SPDX-License-Identifier: Apache-2.0
// The ports of masqueraded connections, of what the node's sysctls say: in which order they are tried, and which none gets.
import type { PortRange } from '../../../lib/port-range.ts';
import type { PacketSettings } from '../layout/packet-layout.ts';
import type { ArrayTable } from '../state/tables.ts';

/** As kube-proxy's MASQUERADE. */
const SNAT_PORTS: PortRange = { first: 1024, last: 65_535 };
/** The default of kube-apiserver's --service-node-port-range: a datagram to a NodePort is a request. */
const NODE_PORTS: PortRange = { first: 30_000, last: 32_767 };

/** All ports; last of all NodePorts, and ports that Linux may give to a connection of the node itself. */
export function portsBeside(local: PortRange): Pick<PacketSettings, 'snatPorts' | 'localPorts'> {
  return {
    snatPorts: SNAT_PORTS,
    localPorts: {
      first: Math.min(local.first, NODE_PORTS.first),
      last: Math.max(local.last, NODE_PORTS.last),
    },
  };
}

const WORD_BITS = 64;

/** Writes fl_kept_port: bit `port % 64` of word `port / 64`. */
export function writeKeptPorts(table: ArrayTable, ranges: readonly PortRange[]): void {
  const words = new BigUint64Array(table.length);
  for (const { first, last } of ranges) {
    for (let port = first; port <= last; port++) {
      const at = Math.floor(port / WORD_BITS);
      words[at] = (words[at] ?? 0n) | (1n << BigInt(port % WORD_BITS));
    }
  }
  for (const [at, word] of words.entries()) {
    table.view(at).setBigUint64(table.offset(at), word, true);
  }
}
