// SPDX-License-Identifier: Apache-2.0
// Stale sockets as the iterators of bpf/socket/stale/find_stale.bpf.c describe them, and the requests by which
// sock_diag(7) destroys one. test/unit/engines/bpf/stale-sockets/socket.test.ts compares offsets with the object's BTF.
import { addressText } from '../../../lib/address-bytes.ts';
import type { Family, Protocol } from '../../../model/types.ts';
import type { FrontendId } from '../../entry.ts';
import { PROTOCOL_NUMBER, protocolOf } from '../layout/layout.ts';

export const STALE_SOCKET_SIZE = 88;

/** Offsets in struct stale_socket. */
export const AT = {
  cookie: 0,
  netns: 8,
  device: 12,
  local_address: 16,
  local_port: 32,
  protocol: 34,
  family: 35,
  peer: 40,
} as const;

/** Offsets in struct socket_peer. */
export const PEER_AT = {
  service_address: 0,
  backend_address: 16,
  service_port: 32,
  backend_port: 34,
  protocol: 46,
  family: 47,
} as const;

/** An address as 16 bytes in network order, v4-mapped for IPv4. */
export interface WideEnd {
  readonly address: Uint8Array;
  readonly port: number;
}

export interface StaleSocket {
  /** 0: the kernel has not made one. */
  readonly cookie: bigint;
  /** Inode number of its network namespace. */
  readonly netns: number;
  /** ifindex that it is bound to, or 0. */
  readonly device: number;
  /** Of the socket: an IPv6 one may have v4-mapped addresses. */
  readonly socketFamily: Family;
  readonly protocol: Protocol;
  readonly local: WideEnd;
  readonly backend: WideEnd;
  /** The frontend that it was connected to, as the program named it: of a NodePort with a node's address. */
  readonly service: FrontendId & { readonly address: string };
  /** Its record has been overwritten: no program knows it as stale any more. */
  readonly hasOtherRecord?: boolean;
}

/** Whole records; what follows the last one is ignored. */
export function decodeStaleSockets(bytes: Uint8Array): readonly StaleSocket[] {
  const count = Math.floor(bytes.length / STALE_SOCKET_SIZE);
  return Array.from({ length: count }, (_, index) =>
    decodeStaleSocket(bytes.subarray(index * STALE_SOCKET_SIZE, (index + 1) * STALE_SOCKET_SIZE)),
  );
}

function decodeStaleSocket(bytes: Uint8Array): StaleSocket {
  const at = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const inPeer = (field: keyof typeof PEER_AT): number => AT.peer + PEER_AT[field];
  const address = (offset: number): Uint8Array => bytes.slice(offset, offset + 16);
  const protocol = protocolOf(at.getUint8(AT.protocol));
  const family = familyOf(at.getUint8(inPeer('family')));
  return {
    cookie: at.getBigUint64(AT.cookie, true),
    netns: at.getUint32(AT.netns, true),
    device: at.getUint32(AT.device, true),
    socketFamily: familyOf(at.getUint8(AT.family)),
    protocol,
    local: { address: address(AT.local_address), port: at.getUint16(AT.local_port, true) },
    backend: {
      address: address(inPeer('backend_address')),
      port: at.getUint16(inPeer('backend_port'), true),
    },
    service: {
      family,
      address: narrowText(address(inPeer('service_address')), family),
      port: at.getUint16(inPeer('service_port'), true),
      protocol,
    },
  };
}

const familyOf = (number: number): Family => (number === 6 ? 'IPv6' : 'IPv4');

/** A v4-mapped address as the IPv4 address. */
export const narrowText = (address: Uint8Array, family: Family): string =>
  addressText(family === 'IPv4' ? address.subarray(12) : address);

/** struct inet_diag_req_v2 of linux/inet_diag.h: ports and addresses in network order. */
const REQUEST_SIZE = 56;
const REQUEST_AT = { protocol: 1, sport: 8, dport: 10, src: 12, dst: 28, device: 44, cookie: 48 };
const ADDRESS_FAMILY: Readonly<Record<Family, number>> = { IPv4: 2, IPv6: 10 };
/** INET_DIAG_NOCOOKIE: by addresses and ports alone. */
const NO_COOKIE = 0xffff_ffff_ffff_ffffn;

/** Requests back to back: each names one socket by its addresses, ports, device and cookie. */
export function encodeDestroyRequests(
  sockets: readonly Omit<StaleSocket, 'netns' | 'service'>[],
): Uint8Array {
  const bytes = new Uint8Array(sockets.length * REQUEST_SIZE);
  for (const [index, socket] of sockets.entries()) {
    const { socketFamily, protocol, local, backend, device, cookie } = socket;
    const start = index * REQUEST_SIZE;
    const at = new DataView(bytes.buffer, start, REQUEST_SIZE);
    const address = (end: WideEnd): Uint8Array =>
      socketFamily === 'IPv4' ? end.address.subarray(12) : end.address;
    at.setUint8(0, ADDRESS_FAMILY[socketFamily]);
    at.setUint8(REQUEST_AT.protocol, PROTOCOL_NUMBER[protocol]);
    at.setUint16(REQUEST_AT.sport, local.port);
    at.setUint16(REQUEST_AT.dport, backend.port);
    bytes.set(address(local), start + REQUEST_AT.src);
    bytes.set(address(backend), start + REQUEST_AT.dst);
    at.setUint32(REQUEST_AT.device, device, true);
    at.setBigUint64(REQUEST_AT.cookie, cookie === 0n ? NO_COOKIE : cookie, true);
  }
  return bytes;
}
