// SPDX-License-Identifier: Apache-2.0
// Values in elements and rules as bytes. The parts of a concatenation are padded to four bytes each.
import { addressBytes } from '../../../../lib/address-bytes.ts';
import type { Family } from '../../../../model/types.ts';
import { hostNumber } from '../../../../sys/netlink/nft/expressions.ts';
import { joined } from '../../../../sys/netlink/wire.ts';

/** AF_INET and AF_INET6, which are NFPROTO_IPV4 and NFPROTO_IPV6, too. */
export const ADDRESS_FAMILY = { IPv4: 2, IPv6: 10 } as const satisfies Record<Family, number>;

export const PROTOCOLS: Readonly<Record<string, number>> = { tcp: 6, udp: 17, sctp: 132 };

/** @param size 2, or 4 with padding */
export const portBytes = (port: number, size: 2 | 4): Uint8Array =>
  Uint8Array.of(port >> 8, port & 0xff, 0, 0).subarray(0, size);

type Encode = (text: string, family: Family) => Uint8Array;

const TYPES: Readonly<Record<string, Encode>> = {
  ipv4_addr: addressBytes,
  ipv6_addr: addressBytes,
  'ip daddr': addressBytes,
  'ip6 daddr': addressBytes,
  inet_proto: (text) => Uint8Array.of(PROTOCOLS[text] ?? 0, 0, 0, 0),
  inet_service: (text) => portBytes(Number(text), 4),
  'tcp dport': (text) => portBytes(Number(text), 4),
  'udp dport': (text) => portBytes(Number(text), 4),
  'sctp dport': (text) => portBytes(Number(text), 4),
  'numgen random mod 1': (text) => hostNumber(Number(text)),
};

/** @param type `ipv4_addr . inet_proto . inet_service` @returns undefined: not a type that elements of Services have */
export function valueBytes(type: string, text: string, family: Family): Uint8Array | undefined {
  const values = text.split(' . ');
  const parts = type.split(' . ').map((one, at) => TYPES[one]?.(values[at] ?? '', family));
  return parts.every((part) => part !== undefined) ? joined(parts) : undefined;
}

/** As nft prints it again: of a rule and of an element alike. 128 characters of ASCII at most. */
export function commentData(text: string): Uint8Array {
  const bytes = new TextEncoder().encode(`${text}\0`);
  return joined([Uint8Array.of(0, bytes.length), bytes]);
}
