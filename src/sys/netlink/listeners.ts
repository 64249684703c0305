// SPDX-License-Identifier: Apache-2.0
// Sockets of this process's network namespace that listen at one address, by sock_diag(7): TCP and SCTP sockets that
// listen, UDP sockets that are bound and not connected. Sockets bound to every address, or to a device, are left out.
// Layouts: struct inet_diag_req_v2 and struct inet_diag_msg of linux/inet_diag.h.
import { reasonOf } from '../../errors.ts';
import { addressText } from '../../lib/address-bytes.ts';
import { type NetlinkRequest, NLM_F, netlinkRequest } from './request.ts';
import { type Message, viewOf } from './wire.ts';

export type ListenerProtocol = 'TCP' | 'UDP' | 'SCTP';

export interface Listener {
  readonly protocol: ListenerProtocol;
  /** Canonical. */
  readonly address: string;
  readonly port: number;
}

const NETLINK_SOCK_DIAG = 4;
const SOCK_DIAG_BY_FAMILY = 20;
const REQUEST_SIZE = 56;
const AF_INET = 2;
const AF_INET6 = 10;
/** A bound UDP socket is in the state TCP_CLOSE until it is connected. */
const WANTED: Readonly<Record<ListenerProtocol, { number: number; state: number }>> = {
  TCP: { number: 6, state: 10 },
  UDP: { number: 17, state: 7 },
  SCTP: { number: 132, state: 10 },
};
const AT = { family: 0, sport: 4, src: 8, device: 40 } as const;
const MESSAGE_SIZE = 72;
const MAPPED = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff);

/**
 * Throws an Error that names the protocol and the errno: ENOENT is a kernel without `tcp_diag`, `udp_diag` or `sctp_diag`.
 * @param protocols each costs the kernel a walk over its sockets that are bound
 */
export function listenersOf(
  protocols: Iterable<ListenerProtocol>,
  ask: NetlinkRequest = netlinkRequest,
): readonly Listener[] {
  const found: Listener[] = [];
  for (const protocol of protocols) {
    for (const family of [AF_INET, AF_INET6]) {
      for (const message of dumpOf(protocol, family, ask)) {
        const listener = listenerIn(protocol, message);
        if (listener !== undefined) found.push(listener);
      }
    }
  }
  return found;
}

function dumpOf(
  protocol: ListenerProtocol,
  family: number,
  ask: NetlinkRequest,
): readonly Message[] {
  const body = new Uint8Array(REQUEST_SIZE);
  const { number, state } = WANTED[protocol];
  body[0] = family;
  body[1] = number;
  viewOf(body).setUint32(4, 1 << state, true);
  const request = { protocol: NETLINK_SOCK_DIAG, type: SOCK_DIAG_BY_FAMILY, flags: NLM_F.DUMP };
  try {
    return ask({ ...request, body });
  } catch (error) {
    throw new Error(`sockets of ${protocol} cannot be listed: ${reasonOf(error)}`);
  }
}

function listenerIn(
  protocol: ListenerProtocol,
  { type, body }: Pick<Message, 'type' | 'body'>,
): Listener | undefined {
  if (type !== SOCK_DIAG_BY_FAMILY || body.length < MESSAGE_SIZE) return undefined;
  const view = viewOf(body);
  if (view.getUint32(AT.device, true) !== 0) return undefined;
  const bytes = sourceIn(body);
  if (bytes.every((byte) => byte === 0)) return undefined;
  return { protocol, address: addressText(bytes), port: view.getUint16(AT.sport) };
}

/** An IPv6 socket may be bound to a v4-mapped address. */
function sourceIn(body: Uint8Array): Uint8Array {
  if (body[AT.family] === AF_INET) return body.subarray(AT.src, AT.src + 4);
  const bytes = body.subarray(AT.src, AT.src + 16);
  return MAPPED.every((byte, index) => bytes[index] === byte) ? bytes.subarray(12) : bytes;
}
