// SPDX-License-Identifier: Apache-2.0
// Has the kernel ask neighbours of a device whether they are there, so that frames come in by it: ARP and neighbour discovery,
// as for any neighbour that it has not heard for a while.
import * as native from '../native.ts';
import {
  attribute,
  attributesIn,
  DONE_MESSAGE,
  dumpRequest,
  ERROR_MESSAGE,
  joined,
  type Message,
  messagesIn,
  request,
  u32,
  viewOf,
} from './wire.ts';

const NETLINK_ROUTE = 0;
const RTM_NEWNEIGH = 28;
const RTM_GETNEIGH = 30;
/** `struct ndmsg`. */
const NDMSG_SIZE = 12;
const STATE_AT = 8;
const NDA = { DST: 1, LLADDR: 2 };
const NUD = { PROBE: 0x10, NOARP: 0x40, PERMANENT: 0x80 };
const NLM_F_REPLACE = 0x100;
const MOST_ASKED = 4;

export function askNeighbours(ifindex: number): void {
  const socket = native.openNetlink({ protocol: NETLINK_ROUTE });
  try {
    socket.send(dumpRequest(RTM_GETNEIGH, new Uint8Array(NDMSG_SIZE)));
    const found = dumped(socket).filter(({ body }) => u32(body, 4) === ifindex && mayBeAsked(body));
    for (const { body } of found.slice(0, MOST_ASKED)) {
      socket.send(request({ type: RTM_NEWNEIGH, flags: NLM_F_REPLACE }, probeOf(body)));
    }
  } finally {
    socket.close();
  }
}

function dumped(socket: native.NetlinkSocket): readonly Message[] {
  const messages: Message[] = [];
  for (;;) {
    const datagram = socket.receive();
    if (datagram === undefined) return messages;
    for (const message of messagesIn(datagram)) {
      if (message.type === DONE_MESSAGE || message.type === ERROR_MESSAGE) return messages;
      messages.push(message);
    }
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
