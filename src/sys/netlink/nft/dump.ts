// SPDX-License-Identifier: Apache-2.0
// Lists objects of nf_tables in this process's network namespace.
import { NLM_F, netlinkRequest } from '../request.ts';
import { joined } from '../wire.ts';
import { NETLINK_NETFILTER, NFTABLES } from './table.ts';

/** As nft names them. */
export const FAMILIES: Readonly<Record<number, string>> = {
  1: 'inet',
  2: 'ip',
  3: 'arp',
  5: 'netdev',
  7: 'bridge',
  10: 'ip6',
};

/** Throws the kernel's errno. */
export const dump = (
  message: number,
  family: number,
  attributes: readonly Uint8Array[],
): readonly Uint8Array[] =>
  netlinkRequest({
    ...{ protocol: NETLINK_NETFILTER, type: NFTABLES | message, flags: NLM_F.DUMP },
    body: joined([Uint8Array.of(family, 0, 0, 0), ...attributes]),
  }).map(({ body }) => body);
