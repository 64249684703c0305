// SPDX-License-Identifier: Apache-2.0
// Keys of the legs of flows: struct tuple4 and tuple6 of bpf/packet/types.h. Addresses stay bytes in network
// order, because legs are found by them; they become text only for people.
import { addressText, hostPort } from '../../../lib/address-bytes.ts';
import type { Family } from '../../../model/types.ts';
import { PACKET_SIZE } from '../maps/packet-layout.ts';

export interface Side {
  readonly address: Uint8Array;
  readonly port: number;
}

export interface Tuple {
  readonly source: Side;
  readonly destination: Side;
  readonly protocol: number;
}

export const TUPLE_SIZE: Readonly<Record<Family, number>> = {
  IPv4: PACKET_SIZE.tuple4,
  IPv6: PACKET_SIZE.tuple6,
};

const addressSize = (family: Family): number => (family === 'IPv4' ? 4 : 16);

export function decodeTuple(bytes: Uint8Array, family: Family): Tuple {
  const size = addressSize(family);
  const port = (at: number): number => (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
  return {
    source: { address: bytes.subarray(0, size), port: port(2 * size) },
    destination: { address: bytes.subarray(size, 2 * size), port: port(2 * size + 2) },
    protocol: bytes[2 * size + 4] ?? 0,
  };
}

export function encodeTuple({ source, destination, protocol }: Tuple, family: Family): Uint8Array {
  const size = addressSize(family);
  const bytes = new Uint8Array(TUPLE_SIZE[family]);
  bytes.set(source.address, 0);
  bytes.set(destination.address, size);
  bytes[2 * size] = source.port;
  bytes[2 * size + 1] = source.port >> 8;
  bytes[2 * size + 2] = destination.port;
  bytes[2 * size + 3] = destination.port >> 8;
  bytes[2 * size + 4] = protocol;
  return bytes;
}

/** With the lower side as the source, as the key of a nat leg. */
export function ascending(tuple: Tuple): Tuple {
  const { source, destination, protocol } = tuple;
  return compareSides(source, destination) < 0
    ? tuple
    : { source: destination, destination: source, protocol };
}

/** By address, then by port. */
export function compareSides(a: Side, b: Side): number {
  for (let at = 0; at < a.address.length; at += 1) {
    const difference = (a.address[at] ?? 0) - (b.address[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.port - b.port;
}

/** A text that orders sides of one family as compareSides does. */
export function orderOf({ address, port }: Side): string {
  let text = '';
  for (let at = 0; at < address.length; at += 1) text += String.fromCharCode(address[at] ?? 0);
  return text + String.fromCharCode(port);
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export const sideText = ({ address, port }: Side): string => hostPort(addressText(address), port);
