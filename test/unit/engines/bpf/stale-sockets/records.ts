// SPDX-License-Identifier: Apache-2.0
// Records of stale sockets as the kernel writes them.
import {
  AT,
  PEER_AT,
  STALE_SOCKET_SIZE,
} from '../../../../../src/engines/bpf/stale-sockets/socket.ts';
import { writeAddress } from '../../../../../src/lib/address-bytes.ts';
import type { Family, Protocol } from '../../../../../src/model/types.ts';

export interface RecordSpec {
  readonly service: string;
  readonly backend: string;
  readonly local: string;
  /** Of the addresses. */
  readonly family: Family;
  readonly socketFamily?: Family;
  readonly protocol?: Protocol;
  readonly cookie?: bigint;
  readonly netns?: number;
  readonly device?: number;
  readonly servicePort?: number;
  readonly backendPort?: number;
}

export const V4 = {
  service: '10.96.0.10',
  backend: '10.1.1.2',
  local: '10.1.1.9',
  family: 'IPv4',
} as const;
export const V6 = {
  service: 'fd00::a',
  backend: 'fd00::2',
  local: 'fd00::9',
  family: 'IPv6',
} as const;

const number = (family: Family): number => (family === 'IPv4' ? 4 : 6);

/** Ports: 53 of the Service, 8080 of the backend, 40000 of the socket. */
export function recordOf(spec: RecordSpec): Uint8Array {
  const { family, socketFamily = family, protocol = 'UDP' } = spec;
  const bytes = new Uint8Array(STALE_SOCKET_SIZE);
  const at = new DataView(bytes.buffer);
  const put = (offset: number, address: string): void => {
    if (family === 'IPv4') bytes.fill(0xff, offset + 10, offset + 12);
    writeAddress(bytes, family === 'IPv4' ? offset + 12 : offset, address, family);
  };
  const protocolNumber = protocol === 'TCP' ? 6 : 17;
  at.setBigUint64(AT.cookie, spec.cookie ?? 0n, true);
  at.setUint32(AT.netns, spec.netns ?? 1, true);
  at.setUint32(AT.device, spec.device ?? 0, true);
  put(AT.local_address, spec.local);
  at.setUint16(AT.local_port, 40_000, true);
  at.setUint8(AT.protocol, protocolNumber);
  at.setUint8(AT.family, number(socketFamily));
  put(AT.peer + PEER_AT.service_address, spec.service);
  put(AT.peer + PEER_AT.backend_address, spec.backend);
  at.setUint16(AT.peer + PEER_AT.service_port, spec.servicePort ?? 53, true);
  at.setUint16(AT.peer + PEER_AT.backend_port, spec.backendPort ?? 8080, true);
  at.setUint8(AT.peer + PEER_AT.protocol, protocolNumber);
  at.setUint8(AT.peer + PEER_AT.family, number(family));
  return bytes;
}
