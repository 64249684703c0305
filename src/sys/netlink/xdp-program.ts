// SPDX-License-Identifier: Apache-2.0
// Asks rtnetlink which XDP program a device runs. A link is attached and detached without a notification.
import { RTM } from './records.ts';
import { NLM_F, netlinkRequest } from './request.ts';
import { attributesIn, u32, viewOf } from './wire.ts';

const NETLINK_ROUTE = 0;
const IFINFO_SIZE = 16;
const IFLA_XDP = 43;
const IFLA_XDP_PROG_ID = 4;

/** Its id, 0 if there is none, or no such device. */
export function xdpProgramOf(ifindex: number): number {
  const body = new Uint8Array(IFINFO_SIZE);
  viewOf(body).setUint32(4, ifindex, true);
  const answer = answerTo(body);
  if (answer === undefined) return 0;
  return programIn(answer);
}

function programIn(body: Uint8Array): number {
  const xdp = attributesIn(body, IFINFO_SIZE, [IFLA_XDP]).get(IFLA_XDP);
  if (xdp === undefined) return 0;
  return u32(attributesIn(xdp, 0, [IFLA_XDP_PROG_ID]).get(IFLA_XDP_PROG_ID)) ?? 0;
}

/** Of all devices that run one, by ifindex. Throws the kernel's errno. */
export function xdpPrograms(): ReadonlyMap<number, number> {
  const body = new Uint8Array(IFINFO_SIZE);
  const asked = { protocol: NETLINK_ROUTE, type: RTM.GETLINK, flags: NLM_F.DUMP, body };
  const found = netlinkRequest(asked).map(
    (message) => [u32(message.body, 4) ?? 0, programIn(message.body)] as const,
  );
  return new Map(found.filter(([, program]) => program !== 0));
}

function answerTo(body: Uint8Array): Uint8Array | undefined {
  try {
    const request = { protocol: NETLINK_ROUTE, type: RTM.GETLINK, flags: 0, body };
    return netlinkRequest(request)[0]?.body;
  } catch {
    return undefined; // It has just gone.
  }
}
