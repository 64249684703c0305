// SPDX-License-Identifier: Apache-2.0
// nfnetlink requests of this process's network namespace: entries of conntrack, objects of nfacct.
import { NLM_F, netlinkRequest } from './netlink/request.ts';

const NETLINK_NETFILTER = 12;
/** A subsystem's number is the upper byte of a message's type. */
const CTNETLINK = 1 << 8;
const NFACCT = 7 << 8;
const IPCTNL_MSG_CT_GET = 1;
const NFNL_MSG_ACCT_NEW = 0;
const NFACCT_NAME = 1;
const AF_INET = 2;

/** `struct nfgenmsg`. */
const header = (family: number): readonly number[] => [family, 0, 0, 0];

/** Connections of IPv4 that conntrack has. Throws the kernel's errno. */
export const countTracked = (): number =>
  netlinkRequest({
    protocol: NETLINK_NETFILTER,
    type: CTNETLINK | IPCTNL_MSG_CT_GET,
    flags: NLM_F.DUMP,
    body: Uint8Array.from(header(AF_INET)),
  }).length;

/** @param name up to 7 characters of ASCII */
export function addAccount(name: string): void {
  const text = new TextEncoder().encode(name.padEnd(8, '\0'));
  netlinkRequest({
    protocol: NETLINK_NETFILTER,
    type: NFACCT | NFNL_MSG_ACCT_NEW,
    flags: NLM_F.ACK | NLM_F.CREATE | NLM_F.EXCL,
    body: Uint8Array.of(...header(0), 4 + text.length, 0, NFACCT_NAME, 0, ...text),
  });
}
