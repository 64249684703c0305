// SPDX-License-Identifier: Apache-2.0
// Canonical textual addresses <-> the bytes the kernel compares (network order).
// Pure. The common IPv4 case is read by hand: it runs for every backend of every plan.
import ipaddr from 'ipaddr.js';

/** 4 or 16 bytes in network order. Throws on text that is not an address of the family (a bug: plans are canonical). */
export function addressBytes(address: string, family: 'IPv4' | 'IPv6'): Uint8Array {
  const bytes = new Uint8Array(family === 'IPv4' ? 4 : 16);
  writeAddress(bytes, 0, address, family);
  return bytes;
}

/** As addressBytes, into `bytes` from `at` on. */
export function writeAddress(
  bytes: Uint8Array,
  at: number,
  address: string,
  family: 'IPv4' | 'IPv6',
): void {
  if (family === 'IPv6') {
    bytes.set(ipaddr.IPv6.parse(address).toByteArray(), at);
    return;
  }
  let part = at;
  let value = 0;
  for (let index = 0; index < address.length; index++) {
    const code = address.charCodeAt(index);
    if (code === 46) {
      bytes[part++] = value;
      value = 0;
    } else {
      value = value * 10 + code - 48;
    }
  }
  bytes[part] = value;
  if (part !== at + 3) throw new TypeError(`not a canonical IPv4 address: ${address}`);
}

/** 4 bytes -> dotted quad, 16 bytes -> RFC 5952. */
export function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`;
  return new ipaddr.IPv6(Array.from(bytes)).toRFC5952String();
}

/** `10.0.0.1:80` or `[fd00::1]:80`. */
export function hostPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
