// SPDX-License-Identifier: Apache-2.0
// Codecs for the maps of direct return: fl_peer, fl_cookie, fl_backend_node and fl_local_be, whose structs are in
// bpf/packet/types.h. Addresses are v4-mapped for IPv4. test/unit/engines/bpf/layout/direct-layout.test.ts compares
// them with the object's BTF.
import { decodePingKey, encodePingKey, PACKET_SIZE } from '../layout/packet-layout.ts';

const view = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** struct peer_key, and struct backend_node: the same bytes as a key of fl_ping. */
export const encodeNodeAddress = encodePingKey;

/** undefined: this node, or not known. */
export const decodeNodeAddress = (bytes: Uint8Array): string | undefined =>
  bytes.every((byte) => byte === 0) ? undefined : decodePingKey(bytes);

export interface PeerValue {
  /** UDP, where the node takes Geneve. */
  readonly port: number;
  /** As an ICMP error has told the programs; undefined: none has. An agent never writes it. */
  readonly pathMtu?: number;
}

export function encodePeer({ port }: PeerValue): Uint8Array {
  const bytes = new Uint8Array(PACKET_SIZE.peer);
  view(bytes).setUint16(0, port, true);
  return bytes;
}

export function decodePeer(bytes: Uint8Array): PeerValue {
  const at = view(bytes);
  const pathMtu = at.getUint16(2, true);
  return { port: at.getUint16(0, true), ...(pathMtu !== 0 && { pathMtu }) };
}

export interface Cookies {
  /** One or two, each of 16 bytes; the first one is sent, if any is. */
  readonly keys: readonly Uint8Array[];
  readonly isSent: boolean;
  /** Requests without a cookie are taken, too. */
  readonly takesNone: boolean;
}

const KEY_BYTES = 16;
/** In struct cookies, behind room for two keys. */
const [COUNT, IS_SENT, TAKES_NONE] = [32, 33, 34];

/** struct cookies */
export function encodeCookies({ keys, isSent, takesNone }: Cookies): Uint8Array {
  const bytes = new Uint8Array(PACKET_SIZE.cookies);
  for (const [at, key] of keys.entries()) bytes.set(key, at * KEY_BYTES);
  bytes[COUNT] = keys.length;
  bytes[IS_SENT] = Number(isSent);
  bytes[TAKES_NONE] = Number(takesNone);
  return bytes;
}

export const decodeCookies = (bytes: Uint8Array): Cookies => ({
  keys: Array.from({ length: bytes[COUNT] ?? 0 }, (_, at) =>
    bytes.slice(at * KEY_BYTES, (at + 1) * KEY_BYTES),
  ),
  isSent: bytes[IS_SENT] === 1,
  takesNone: bytes[TAKES_NONE] === 1,
});

/** A backend of this node, as another node names it. */
export interface LocalBackendKey {
  readonly address: string;
  readonly port: number;
  readonly serviceId: number;
}

export function encodeLocalBackendKey(key: LocalBackendKey): Uint8Array {
  const bytes = new Uint8Array(PACKET_SIZE.local_backend_key);
  bytes.set(encodePingKey(key.address), 0);
  view(bytes).setUint32(16, key.serviceId, true);
  view(bytes).setUint16(20, key.port, true);
  return bytes;
}
