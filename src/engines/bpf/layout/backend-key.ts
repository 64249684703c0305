// SPDX-License-Identifier: Apache-2.0
// A backend's address and port as one value to look up by, from the bytes of the kernel's element: a number
// for IPv4, nine UTF-16 units for IPv6.
import { addressBytes, addressText, hostPort } from '../../../lib/address-bytes.ts';
import type { Family } from '../../../model/types.ts';
import type { Backend } from '../../../plan/types.ts';

export type BackendKey = number | string;

const PORTS = 65_536;
const IPV6_UNITS = 8;

export function backendKey(
  { address, port }: Pick<Backend, 'address' | 'port'>,
  family: Family,
): BackendKey {
  if (family === 'IPv4') return ipv4Number(address) * PORTS + port;
  const bytes = addressBytes(address, family);
  const view = new DataView(bytes.buffer);
  const units = Array.from({ length: IPV6_UNITS }, (_, unit) => view.getUint16(2 * unit));
  return String.fromCharCode(...units, port);
}

/** The key of the element at `offset` of a backend table. */
export function readBackendKey(at: DataView, offset: number, family: Family): BackendKey {
  if (family === 'IPv4') return at.getUint32(offset) * PORTS + at.getUint16(offset + 4, true);
  const units = Array.from({ length: IPV6_UNITS }, (_, unit) => at.getUint16(offset + 2 * unit));
  return String.fromCharCode(...units, at.getUint16(offset + 2 * IPV6_UNITS, true));
}

/** The inverse: address in network order, port in host order. */
export function writeBackendKey(at: DataView, offset: number, key: BackendKey): void {
  if (typeof key === 'number') {
    at.setUint32(offset, Math.floor(key / PORTS));
    at.setUint16(offset + 4, key % PORTS, true);
    return;
  }
  for (let unit = 0; unit < IPV6_UNITS; unit += 1) {
    at.setUint16(offset + 2 * unit, key.charCodeAt(unit));
  }
  at.setUint16(offset + 2 * IPV6_UNITS, key.charCodeAt(IPV6_UNITS), true);
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function backendText(at: DataView, offset: number, family: Family): string {
  const length = family === 'IPv4' ? 4 : 16;
  const address = new Uint8Array(at.buffer, at.byteOffset + offset, length);
  return hostPort(addressText(address), at.getUint16(offset + length, true));
}

function ipv4Number(address: string): number {
  let number = 0;
  let part = 0;
  for (let index = 0; index < address.length; index += 1) {
    const code = address.charCodeAt(index);
    if (code === 46) {
      number = number * 256 + part;
      part = 0;
    } else {
      part = part * 10 + code - 48;
    }
  }
  return number * 256 + part;
}
