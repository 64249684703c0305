// SPDX-License-Identifier: Apache-2.0
// The settings of the packet programs, in fl_packet: constants, the key of their hashes, and the node's addresses,
// which follow the plan.
import { getRandomValues } from 'node:crypto';
import type { Plan } from '../../../plan/types.ts';
import { localPortRange } from '../../../sys/local-ports.ts';
import type { BpfMap } from '../../../sys/native.ts';
import { encodeU32 } from '../maps/layout.ts';
import { encodePacketSettings, type PacketSettings, secretOf } from '../maps/packet-layout.ts';

/** As nf_conntrack's, except that a TCP connection may be silent for 6 hours, not 5 days. */
const DEFAULTS: Omit<PacketSettings, 'secret' | 'nodeAddress' | 'resetGone' | 'localPorts'> = {
  timeoutSeconds: {
    tcpNew: 20,
    tcpEstablished: 21_600,
    tcpHalfClosed: 120,
    tcpClosed: 10,
    udpNew: 30,
    udpEstablished: 120,
  },
  answersPerSecond: 1000,
  /** Above the ports that Linux gives to the node's own connections (32768-60999). */
  snatPorts: { first: 61_000, last: 65_535 },
  resetUnknown: true,
  answerPing: false,
};

/** Writes the settings, and returns a function that follows the node's addresses. */
export function followSettings(
  map: BpfMap,
  { resetsTcp: resetGone }: { readonly resetsTcp: boolean },
): (node: Plan['node']) => void {
  const secret = secretOf(map.get(encodeU32(0)) ?? new Uint8Array(8)) || randomSecret();
  let last: string | undefined;
  const write = (nodeAddress: PacketSettings['nodeAddress']): void => {
    const following = { nodeAddress, localPorts: localPortRange() };
    const text = JSON.stringify(following);
    if (text === last) return;
    const settings = { ...DEFAULTS, ...following, resetGone, secret };
    map.put(encodeU32(0), encodePacketSettings(settings));
    last = text;
  };
  return ({ addresses: { IPv4, IPv6 } }) =>
    write({ ...(IPv4 !== undefined && { IPv4 }), ...(IPv6 !== undefined && { IPv6 }) });
}

/** Never 0, which stands for none. */
const randomSecret = (): bigint => (getRandomValues(new BigUint64Array(1))[0] ?? 0n) | 1n;
