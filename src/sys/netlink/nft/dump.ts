// SPDX-License-Identifier: Apache-2.0
// Lists objects of nf_tables in a network namespace.
import { reasonOf } from '../../../errors.ts';
import { type NetlinkRequest, NLM_F, netlinkRequest } from '../request.ts';
import { joined } from '../wire.ts';

const NETLINK_NETFILTER = 12;
/** A subsystem's number is the upper byte of a message's type. */
const NFTABLES = 10 << 8;
/** What a kernel without the table, or without nf_tables, answers. */
const NOT_THERE: readonly string[] = ['ENOENT', 'EINVAL', 'EOPNOTSUPP'];

/** As nft names them. */
export const FAMILIES: Readonly<Record<number, string>> = {
  1: 'inet',
  2: 'ip',
  3: 'arp',
  5: 'netdev',
  7: 'bridge',
  10: 'ip6',
};

export interface Dump {
  readonly message: number;
  /** A key of FAMILIES; absent: every one. */
  readonly family?: number;
  readonly attributes?: readonly Uint8Array[];
  /** An open namespace; absent: this process's own. */
  readonly netns?: number | undefined;
}

/** Bodies of the answers. Throws the kernel's errno. */
export const dump = (
  { message, family = 0, attributes = [], netns }: Dump,
  ask: NetlinkRequest = netlinkRequest,
): readonly Uint8Array[] =>
  ask({
    ...{ protocol: NETLINK_NETFILTER, type: NFTABLES | message, flags: NLM_F.DUMP },
    body: joined([Uint8Array.of(family, 0, 0, 0), ...attributes]),
    ...(netns !== undefined && { netns }),
  }).map(({ body }) => body);

/** The same; empty where there is no such thing. */
export function dumpOrNone(what: Dump, ask?: NetlinkRequest): readonly Uint8Array[] {
  try {
    return dump(what, ask);
  } catch (error) {
    if (NOT_THERE.includes(reasonOf(error))) return [];
    throw error;
  }
}
