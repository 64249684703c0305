// SPDX-License-Identifier: Apache-2.0
// Codecs for every struct of bpf/common/types.h: record <-> bytes, little-endian host, addresses in network
// order. test/unit/dataplane/bpf/layout.test.ts compares sizes and offsets with the object's BTF.
import { addressBytes, addressText } from '../../../lib/address-bytes.ts';
import type { Family, Protocol } from '../../../model/types.ts';

export const SIZE = {
  frontend4_key: 8,
  frontend6_key: 20,
  set_ref: 8,
  frontend: 32,
  slot_block: 64,
  backend4: 16,
  backend6: 32,
  service_name: 200,
  frontend_stat: 32,
  backend_stat: 16,
  node_address: 4,
  cgroup_skip: 4,
  runtime_flags: 8,
} as const;

export const SLOTS_PER_BLOCK = 16;
/** set_ref.slots is 16 bits wide. */
export const MAX_SLOTS = 65_535;
const SERVICE_NAME_SIZE = 196;

export const PROTOCOL_NUMBER: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };
export const BACKEND_STATE = { FREE: 0, ACTIVE: 1, TERMINATING: 2, GONE: 3 } as const;
export const EMPTY_VERDICT = { reject: 0, drop: 1 } as const;
export const ADDRESS_SCOPE = { node: 1, loopback: 2 } as const;

export interface FrontendKey {
  readonly family: Family;
  /** undefined: any address of the node, stored as all zero. */
  readonly address: string | undefined;
  /** 0 with no protocol: every port of the address that has no frontend of its own. */
  readonly port: number;
  readonly protocol: Protocol | undefined;
}

/** Where a set lives; `slots` 0 means empty. */
export interface SetRef {
  readonly block: number;
  readonly slots: number;
  readonly generation: number;
}

export interface FrontendValue {
  readonly internal: SetRef;
  readonly external: SetRef;
  readonly serviceId: number;
  readonly frontendId: number;
  readonly affinitySeconds: number;
  readonly internalEmpty: 'reject' | 'drop';
  readonly externalEmpty: 'reject' | 'drop';
  readonly isNodePort: boolean;
  readonly arePodsOutside: boolean;
  readonly hasSourceRanges: boolean;
}

export interface BackendValue {
  readonly address: string;
  readonly port: number;
  readonly state: number;
  readonly isLocal: boolean;
  readonly serviceId: number;
  readonly generation: number;
}

export interface ServiceName {
  readonly name: string;
  readonly protocol: Protocol;
  readonly family: Family;
}

export const EMPTY_SET: SetRef = { block: 0, slots: 0, generation: 0 };

const view = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export function frontendKeySize(family: Family): number {
  return family === 'IPv4' ? SIZE.frontend4_key : SIZE.frontend6_key;
}

export function encodeFrontendKey(key: FrontendKey): Uint8Array {
  const bytes = new Uint8Array(frontendKeySize(key.family));
  const portAt = bytes.length - 4;
  if (key.address !== undefined) bytes.set(addressBytes(key.address, key.family), 0);
  bytes[portAt] = key.port & 0xff;
  bytes[portAt + 1] = key.port >> 8;
  if (key.protocol !== undefined) bytes[portAt + 2] = PROTOCOL_NUMBER[key.protocol];
  return bytes;
}

export function decodeFrontendKey(bytes: Uint8Array, family: Family): FrontendKey {
  const portAt = bytes.length - 4;
  const address = bytes.subarray(0, portAt);
  return {
    family,
    address: address.every((byte) => byte === 0) ? undefined : addressText(address),
    port: view(bytes).getUint16(portAt, true),
    protocol: bytes[portAt + 2] === 0 ? undefined : protocolOf(bytes[portAt + 2] ?? 0),
  };
}

export function protocolOf(number: number): Protocol {
  if (number === PROTOCOL_NUMBER.UDP) return 'UDP';
  return number === PROTOCOL_NUMBER.SCTP ? 'SCTP' : 'TCP';
}

function writeSetRef(at: DataView, offset: number, ref: SetRef): void {
  at.setUint32(offset, ref.block, true);
  at.setUint16(offset + 4, ref.slots, true);
  at.setUint8(offset + 7, ref.generation);
}

function readSetRef(at: DataView, offset: number): SetRef {
  return {
    block: at.getUint32(offset, true),
    slots: at.getUint16(offset + 4, true),
    generation: at.getUint8(offset + 7),
  };
}

/** A view costs more to make than all that is written through it. */
const frontendScratch = new Uint8Array(SIZE.frontend);
const frontendScratchView = view(frontendScratch);

export function encodeFrontend(value: FrontendValue): Uint8Array {
  const at = frontendScratchView;
  writeSetRef(at, 0, value.internal);
  writeSetRef(at, 8, value.external);
  at.setUint32(16, value.serviceId, true);
  at.setUint32(20, value.frontendId, true);
  at.setUint32(24, value.affinitySeconds, true);
  at.setUint8(28, EMPTY_VERDICT[value.internalEmpty]);
  at.setUint8(29, EMPTY_VERDICT[value.externalEmpty]);
  at.setUint8(
    30,
    Number(value.isNodePort) |
      (Number(value.arePodsOutside) << 1) |
      (Number(value.hasSourceRanges) << 2),
  );
  return frontendScratch.slice();
}

export function decodeFrontend(bytes: Uint8Array): FrontendValue {
  const at = view(bytes);
  const flags = at.getUint8(30);
  return {
    internal: readSetRef(at, 0),
    external: readSetRef(at, 8),
    serviceId: at.getUint32(16, true),
    frontendId: at.getUint32(20, true),
    affinitySeconds: at.getUint32(24, true),
    internalEmpty: at.getUint8(28) === EMPTY_VERDICT.drop ? 'drop' : 'reject',
    externalEmpty: at.getUint8(29) === EMPTY_VERDICT.drop ? 'drop' : 'reject',
    isNodePort: (flags & 1) !== 0,
    arePodsOutside: (flags & 2) !== 0,
    hasSourceRanges: (flags & 4) !== 0,
  };
}

export function backendSize(family: Family): number {
  return family === 'IPv4' ? SIZE.backend4 : SIZE.backend6;
}

/** Byte offset of everything that follows the address. */
const backendTail = (family: Family): number => (family === 'IPv4' ? 4 : 16);

export function encodeBackend(value: BackendValue, family: Family): Uint8Array {
  const bytes = new Uint8Array(backendSize(family));
  const at = view(bytes);
  const tail = backendTail(family);
  bytes.set(addressBytes(value.address, family), 0);
  at.setUint16(tail, value.port, true);
  at.setUint8(tail + 2, value.state);
  at.setUint8(tail + 3, Number(value.isLocal));
  at.setUint32(tail + 4, value.serviceId, true);
  at.setUint16(tail + 8, value.generation, true);
  return bytes;
}

export function decodeBackend(bytes: Uint8Array, family: Family): BackendValue {
  const at = view(bytes);
  const tail = backendTail(family);
  return {
    address: addressText(bytes.subarray(0, tail)),
    port: at.getUint16(tail, true),
    state: at.getUint8(tail + 2),
    isLocal: (at.getUint8(tail + 3) & 1) !== 0,
    serviceId: at.getUint32(tail + 4, true),
    generation: at.getUint16(tail + 8, true),
  };
}

/** Offset of the state byte: the one byte of a published backend that changes in place. */
export const backendStateOffset = (family: Family): number => backendTail(family) + 2;
export const backendServiceOffset = (family: Family): number => backendTail(family) + 4;
export const backendGenerationOffset = (family: Family): number => backendTail(family) + 8;

const encoder = new TextEncoder();

/** @param bytes zeros to write into: for those who write many, parts of one piece of memory */
export function encodeServiceName(
  value: ServiceName,
  bytes = new Uint8Array(SIZE.service_name),
): Uint8Array {
  encoder.encodeInto(value.name, bytes.subarray(0, SERVICE_NAME_SIZE - 1));
  bytes[SERVICE_NAME_SIZE] = PROTOCOL_NUMBER[value.protocol];
  bytes[SERVICE_NAME_SIZE + 1] = value.family === 'IPv4' ? 4 : 6;
  return bytes;
}

export function decodeServiceName(bytes: Uint8Array): ServiceName {
  const end = bytes.indexOf(0);
  return {
    name: new TextDecoder().decode(bytes.subarray(0, end < 0 ? SERVICE_NAME_SIZE : end)),
    protocol: protocolOf(bytes[SERVICE_NAME_SIZE] ?? 0),
    family: bytes[SERVICE_NAME_SIZE + 1] === 6 ? 'IPv6' : 'IPv4',
  };
}

export function encodeU32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  view(bytes).setUint32(0, value, true);
  return bytes;
}

export function decodeU32(bytes: Uint8Array): number {
  return view(bytes).getUint32(0, true);
}

/** struct runtime_flags: how many cgroups opted out, how many wildcard frontends exist. */
export const SKIPPED_CGROUPS_OFFSET = 0;
export const NODE_PORTS_OFFSET = 4;
