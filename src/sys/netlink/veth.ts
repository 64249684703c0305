// SPDX-License-Identifier: Apache-2.0
// Makes a pair of veth devices that are up, as `ip link add NAME type veth peer name PEER` does.
import { RTM } from './records.ts';
import { NLM_F, netlinkRequest } from './request.ts';
import { attribute, joined, viewOf } from './wire.ts';

const NETLINK_ROUTE = 0;
const IFINFO_SIZE = 16;
const IFF_UP = 1;
const IFLA = { IFNAME: 3, LINKINFO: 18 };
const IFLA_INFO = { KIND: 1, DATA: 2 };
const VETH_INFO_PEER = 1;

/** Throws an Error whose message is the errno's name. */
export function addVeth(name: string, peer: string): void {
  const peerInfo = attribute(VETH_INFO_PEER, header(0), named(peer));
  const info = attribute(
    IFLA.LINKINFO,
    attribute(IFLA_INFO.KIND, textOf('veth')),
    attribute(IFLA_INFO.DATA, peerInfo),
  );
  change(NLM_F.CREATE | NLM_F.EXCL, joined([header(0), named(name), info]));
  // Not at once: one alone cannot be up.
  for (const one of [name, peer]) change(0, joined([header(IFF_UP), named(one)]));
}

const change = (flags: number, body: Uint8Array): void =>
  void netlinkRequest({
    ...{ protocol: NETLINK_ROUTE, type: RTM.NEWLINK, flags: NLM_F.ACK | flags },
    body,
  });

/** `struct ifinfomsg`. */
function header(flags: number): Uint8Array {
  const bytes = new Uint8Array(IFINFO_SIZE);
  viewOf(bytes).setUint32(8, flags, true);
  viewOf(bytes).setUint32(12, flags, true);
  return bytes;
}

const named = (name: string): Uint8Array => attribute(IFLA.IFNAME, textOf(name));

const textOf = (text: string): Uint8Array => new TextEncoder().encode(`${text}\0`);
