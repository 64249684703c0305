// SPDX-License-Identifier: Apache-2.0
// The header of the PROXY protocol, version 2: it tells a backend who the client is, and what it has asked for. Pure.
// https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt
import { writeAddress } from '../../../lib/address-bytes.ts';
import { familyOf } from '../../../lib/ip.ts';

const SIGNATURE = Uint8Array.of(13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10);
const PROXY_V2 = 0x21;
const TCP = { IPv4: 0x11, IPv6: 0x21 } as const;
const FIXED_BYTES = 16;

export interface ProxiedEnds {
  /** Both canonical, and of one family. */
  readonly client: string;
  readonly clientPort: number;
  readonly destination: string;
  readonly destinationPort: number;
}

/** 28 bytes, or 52 of IPv6. */
export function proxyHeader(ends: ProxiedEnds): Uint8Array {
  const family = familyOf(ends.client);
  const size = family === 'IPv4' ? 4 : 16;
  const bytes = new Uint8Array(FIXED_BYTES + 2 * size + 4);
  const view = new DataView(bytes.buffer);
  bytes.set(SIGNATURE);
  bytes[12] = PROXY_V2;
  bytes[13] = TCP[family];
  view.setUint16(14, bytes.length - FIXED_BYTES);
  writeAddress(bytes, FIXED_BYTES, ends.client, family);
  writeAddress(bytes, FIXED_BYTES + size, ends.destination, family);
  view.setUint16(FIXED_BYTES + 2 * size, ends.clientPort);
  view.setUint16(FIXED_BYTES + 2 * size + 2, ends.destinationPort);
  return bytes;
}
