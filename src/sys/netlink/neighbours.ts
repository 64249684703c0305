// SPDX-License-Identifier: Apache-2.0
// Has the kernel ask neighbours of a device whether they are there, so that frames come in by it: ARP and neighbour discovery,
// as for any neighbour that it has not heard for a while.
import { NLM_F, netlinkRequest } from './request.ts';
import { attribute, attributesIn, joined, u32, viewOf } from './wire.ts';

const NETLINK_ROUTE = 0;
const RTM_NEWNEIGH = 28;
const RTM_GETNEIGH = 30;
/** `struct ndmsg`. */
const NDMSG_SIZE = 12;
const STATE_AT = 8;
const NDA = { DST: 1, LLADDR: 2 };
const NUD = { PROBE: 0x10, NOARP: 0x40, PERMANENT: 0x80 };
const NLM_F_REPLACE = 0x100;
const MAX_ASKED = 4;

/** Fine if there is none. */
export function askNeighbours(ifindex: number): void {
  const dump = { protocol: NETLINK_ROUTE, type: RTM_GETNEIGH, flags: NLM_F.DUMP };
  const found = netlinkRequest({ ...dump, body: new Uint8Array(NDMSG_SIZE) }).filter(
    ({ body }) => u32(body, 4) === ifindex && mayBeAsked(body),
  );
  for (const { body } of found.slice(0, MAX_ASKED)) ask(probeOf(body));
}

function ask(body: Uint8Array): void {
  const change = { protocol: NETLINK_ROUTE, type: RTM_NEWNEIGH, flags: NLM_F.ACK | NLM_F_REPLACE };
  try {
    netlinkRequest({ ...change, body });
  } catch {
    // It has just been forgotten.
  }
}

function mayBeAsked(body: Uint8Array): boolean {
  const state = viewOf(body).getUint16(STATE_AT, true);
  return (state & (NUD.NOARP | NUD.PERMANENT)) === 0 && attributesOf(body).has(NDA.LLADDR);
}

const attributesOf = (body: Uint8Array): ReadonlyMap<number, Uint8Array> =>
  attributesIn(body, NDMSG_SIZE, Object.values(NDA));

function probeOf(body: Uint8Array): Uint8Array {
  const head = body.slice(0, NDMSG_SIZE);
  viewOf(head).setUint16(STATE_AT, NUD.PROBE, true);
  const attributes = [...attributesOf(body)].map(([type, value]) => attribute(type, value));
  return joined([head, ...attributes]);
}
