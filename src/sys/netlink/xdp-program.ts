// SPDX-License-Identifier: Apache-2.0
// Asks rtnetlink which XDP program a device runs. A link is attached and detached without a notification.
import * as native from '../native.ts';
import { RTM } from './records.ts';
import { attributesIn, ERROR_MESSAGE, messagesIn, request, u32, viewOf } from './wire.ts';

const NETLINK_ROUTE = 0;
const IFINFO_SIZE = 16;
const IFLA_XDP = 43;
const IFLA_XDP_PROG_ID = 4;

/** Its id, 0 if there is none; undefined: there is no such device. */
export function xdpProgramOf(ifindex: number): number | undefined {
  const body = new Uint8Array(IFINFO_SIZE);
  viewOf(body).setUint32(4, ifindex, true);
  const socket = native.openNetlink({ protocol: NETLINK_ROUTE });
  try {
    socket.send(request({ type: RTM.GETLINK, flags: 0 }, body));
    const [answer] = messagesIn(socket.receive() ?? new Uint8Array());
    if (answer === undefined || answer.type === ERROR_MESSAGE) return undefined;
    const xdp = attributesIn(answer.body, IFINFO_SIZE, [IFLA_XDP]).get(IFLA_XDP);
    if (xdp === undefined) return 0;
    return u32(attributesIn(xdp, 0, [IFLA_XDP_PROG_ID]).get(IFLA_XDP_PROG_ID)) ?? 0;
  } finally {
    socket.close();
  }
}
