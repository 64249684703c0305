// SPDX-License-Identifier: Apache-2.0
// Codecs for every struct of bpf/common/types.h: record <-> bytes, little-endian host, addresses in network
// order. test/unit/engines/bpf/layout/layout.test.ts compares sizes and offsets with the object's BTF.
import { addressBytes, addressText, writeAddress } from '../../../lib/address-bytes.ts';
import { familyOf } from '../../../lib/ip.ts';
import type { Family, Protocol } from '../../../model/types.ts';
import type { ClientPosition } from '../../../plan/types.ts';
import type { FrontendId } from '../../entry.ts';

export const SIZE = {
  frontend4_key: 8,
  frontend6_key: 20,
  frontend_ref: 4,
  traffic_rule: 8,
  frontend: 64,
  slot_block: 64,
  backend4: 16,
  backend6: 32,
  service_name: 200,
  frontend_stat: 32,
  backend_stat: 16,
  backend_flows: 16,
  node_address: 4,
  source_range_key: 24,
  source_range: 4,
  cgroup_skip: 4,
  runtime_flags: 16,
} as const;

export const SLOTS_PER_BLOCK = 16;
/** Of a run: its first slot is the service id, or the length of a table. */
export const blocksFor = (entries: number): number => Math.ceil((1 + entries) / SLOTS_PER_BLOCK);
/** rule.members is 16 bits wide. */
export const MAX_MEMBERS = 65_535;
const SERVICE_NAME_SIZE = 196;

export const PROTOCOL_NUMBER: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };
export const BACKEND_STATE = { FREE: 0, ACTIVE: 1, TERMINATING: 2, GONE: 3 } as const;
/** enum client_position: index of a frontend's rules. */
export const POSITION = {
  ...{ unknown: 0, host: 1, pod: 2, outside: 3 },
} as const satisfies Record<RulePosition, number>;
export const SET_KIND = {
  random: 0,
  'weighted-random': 1,
  'round-robin': 2,
  'weighted-round-robin': 3,
  'source-hash': 4,
  maglev: 5,
  'least-connections': 6,
  'weighted-least-connections': 7,
} as const;
export const ADDRESS_SCOPE = { node: 1, loopback: 2 } as const;
export const RANGE_KIND = { allowed: 1, pod: 2, denied: 3 } as const;
export type RangeKind = keyof typeof RANGE_KIND;

/** `unknown`: of a socket, where the kernel does not tell its network namespace. */
export type RulePosition = ClientPosition | 'unknown';
export const POSITIONS = Object.keys(POSITION) as readonly RulePosition[];
export type SetKind = keyof typeof SET_KIND;
const SET_KINDS = Object.keys(SET_KIND) as readonly SetKind[];
/** One of a later version is a set of members to this one. */
export const setKindOf = (value: number): SetKind =>
  SET_KINDS.find((kind) => SET_KIND[kind] === value) ?? 'random';

/** A set of this kind has a table behind its members: see struct traffic_rule. */
export const hasTable = (kind: SetKind): boolean => !TABLELESS.includes(kind);
const TABLELESS: readonly SetKind[] = ['random', 'round-robin', 'least-connections'];

/** Of the run of a base: behind the entries is a second. */
export const baseBlocksFor = (entries: number): number => blocksFor(entries + 1);

/** The location of a set; no members means empty. */
export interface SetRef {
  readonly block: number;
  readonly members: number;
  readonly kind: SetKind;
}

/** A traffic rule as the programs read it. */
export interface RuleValue extends SetRef {
  readonly whenEmpty: 'reject' | 'drop';
  readonly masquerade: boolean;
  /** Not masqueraded if the chosen backend is on this node. */
  readonly keepsLocalClient: boolean;
  /** Only sources in the ranges of the service port. */
  readonly hasSourceRanges: boolean;
  /** What would be masqueraded goes in Geneve to the backend's node instead, if that takes it. */
  readonly returnsDirectly?: boolean;
  /** With `returnsDirectly`: in IPIP to the backend, if it is a real server. */
  readonly inIpip?: boolean;
  /** Behind the set is its base. */
  readonly hasBase?: boolean;
}

export interface FrontendValue {
  readonly key: FrontendId;
  readonly rules: Readonly<Record<RulePosition, RuleValue>>;
  readonly serviceId: number;
  readonly affinitySeconds: number;
  /** As in the plan. */
  readonly isEndpointPort?: boolean;
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

export const EMPTY_SET: SetRef = { block: 0, members: 0, kind: 'random' };

const view = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export function frontendKeySize(family: Family): number {
  return family === 'IPv4' ? SIZE.frontend4_key : SIZE.frontend6_key;
}

/** An address of all zero: every address of the node. Port and protocol 0: every port without a frontend. */
export function encodeFrontendKey(key: FrontendId): Uint8Array {
  const bytes = new Uint8Array(frontendKeySize(key.family));
  const portAt = bytes.length - 4;
  const port = key.port ?? 0;
  if (key.address !== undefined) writeAddress(bytes, 0, key.address, key.family);
  bytes[portAt] = port & 0xff;
  bytes[portAt + 1] = port >> 8;
  if (key.protocol !== undefined) bytes[portAt + 2] = PROTOCOL_NUMBER[key.protocol];
  return bytes;
}

export function decodeFrontendKey(bytes: Uint8Array, family: Family): FrontendId {
  const portAt = bytes.length - 4;
  const address = bytes.subarray(0, portAt);
  const port = view(bytes).getUint16(portAt, true);
  return {
    family,
    address: address.every((byte) => byte === 0) ? undefined : addressText(address),
    port: port === 0 ? undefined : port,
    protocol: bytes[portAt + 2] === 0 ? undefined : protocolOf(bytes[portAt + 2] ?? 0),
  };
}

export function protocolOf(number: number): Protocol {
  if (number === PROTOCOL_NUMBER.UDP) return 'UDP';
  return number === PROTOCOL_NUMBER.SCTP ? 'SCTP' : 'TCP';
}

const HAS_BASE = 128;

function writeRule(at: DataView, offset: number, rule: RuleValue): void {
  at.setUint32(offset, rule.block, true);
  at.setUint16(offset + 4, rule.members, true);
  at.setUint8(offset + 6, SET_KIND[rule.kind]);
  const { whenEmpty, masquerade, keepsLocalClient, hasSourceRanges } = rule;
  const policy = Number(whenEmpty === 'drop') | (Number(masquerade) << 1);
  const flags = (Number(keepsLocalClient) << 2) | (Number(hasSourceRanges) << 3);
  const tunnel = (Number(rule.returnsDirectly ?? false) << 5) | (Number(rule.inIpip ?? false) << 6);
  at.setUint8(offset + 7, policy | flags | tunnel | (Number(rule.hasBase ?? false) * HAS_BASE));
}

function readRule(at: DataView, offset: number): RuleValue {
  const flags = at.getUint8(offset + 7);
  return {
    block: at.getUint32(offset, true),
    members: at.getUint16(offset + 4, true),
    kind: setKindOf(at.getUint8(offset + 6)),
    whenEmpty: (flags & 1) === 0 ? 'reject' : 'drop',
    masquerade: (flags & 2) !== 0,
    keepsLocalClient: (flags & 4) !== 0,
    hasSourceRanges: (flags & 8) !== 0,
    ...((flags & 32) !== 0 && { returnsDirectly: true }),
    ...((flags & 64) !== 0 && { inIpip: true }),
    ...((flags & HAS_BASE) !== 0 && { hasBase: true }),
  };
}

/** A view costs more to make than everything that is written through it. */
const frontendScratch = new Uint8Array(SIZE.frontend);
const frontendScratchView = view(frontendScratch);
const FLAGS_AT = 40;
const FAMILY_AT = 41;
const PORT_AT = 42;
const PROTOCOL_AT = 44;
const ADDRESS_AT = 48;

/** 16 bytes: v4-mapped for IPv4, all zero for any address of the node. */
function writeWideAddress(
  bytes: Uint8Array,
  at: number,
  { address, family }: Pick<FrontendId, 'address' | 'family'>,
): void {
  bytes.fill(0, at, at + 16);
  if (address === undefined) return;
  if (family === 'IPv4') bytes.fill(0xff, at + 10, at + 12);
  writeAddress(bytes, family === 'IPv4' ? at + 12 : at, address, family);
}

function readWideAddress(bytes: Uint8Array, family: Family): string | undefined {
  if (bytes.every((byte) => byte === 0)) return undefined;
  return addressText(family === 'IPv4' ? bytes.subarray(12) : bytes);
}

export function encodeFrontend(value: FrontendValue): Uint8Array {
  const { key, rules } = value;
  const at = frontendScratchView;
  writeRule(at, POSITION.unknown * SIZE.traffic_rule, rules.unknown);
  writeRule(at, POSITION.host * SIZE.traffic_rule, rules.host);
  writeRule(at, POSITION.pod * SIZE.traffic_rule, rules.pod);
  writeRule(at, POSITION.outside * SIZE.traffic_rule, rules.outside);
  at.setUint32(32, value.serviceId, true);
  at.setUint32(36, value.affinitySeconds, true);
  const isNodePort = key.address === undefined;
  at.setUint8(FLAGS_AT, Number(isNodePort) | (Number(value.isEndpointPort ?? false) << 1));
  at.setUint8(FAMILY_AT, key.family === 'IPv4' ? 4 : 6);
  at.setUint16(PORT_AT, key.port ?? 0, true);
  at.setUint8(PROTOCOL_AT, key.protocol === undefined ? 0 : PROTOCOL_NUMBER[key.protocol]);
  writeWideAddress(frontendScratch, ADDRESS_AT, key);
  return frontendScratch.slice();
}

/** Of an encoded frontend: all its rules have source ranges, or none has. */
export const hasSourceRanges = (frontend: Uint8Array): boolean => ((frontend[7] ?? 0) & 8) !== 0;

export function decodeFrontend(bytes: Uint8Array): FrontendValue {
  const at = view(bytes);
  const family = at.getUint8(FAMILY_AT) === 6 ? 'IPv6' : 'IPv4';
  const protocol = at.getUint8(PROTOCOL_AT);
  const port = at.getUint16(PORT_AT, true);
  return {
    key: {
      family,
      address: readWideAddress(bytes.subarray(ADDRESS_AT), family),
      port: port === 0 ? undefined : port,
      protocol: protocol === 0 ? undefined : protocolOf(protocol),
    },
    rules: {
      unknown: readRule(at, 0),
      host: readRule(at, 8),
      pod: readRule(at, 16),
      outside: readRule(at, 24),
    },
    serviceId: at.getUint32(32, true),
    affinitySeconds: at.getUint32(36, true),
    ...((at.getUint8(FLAGS_AT) & 2) !== 0 && { isEndpointPort: true }),
  };
}

/** Of an encoded frontend: takes the bases from the sets of these rules. */
export function dropBases(frontend: Uint8Array, positions: readonly RulePosition[]): void {
  for (const position of positions) {
    const at = POSITION[position] * SIZE.traffic_rule + 7;
    frontend[at] = (frontend[at] ?? 0) & ~HAS_BASE;
  }
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

/** @param bytes zeros to write into; for many records, parts of one chunk of memory */
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

/** Byte by byte: a view of bytes this small moves them off the heap, which costs ten times as much. */
export const encodeU32 = (value: number): Uint8Array =>
  Uint8Array.of(value, value >>> 8, value >>> 16, value >>> 24);

export function decodeU32(bytes: Uint8Array): number {
  return view(bytes).getUint32(0, true);
}

/** A range of source addresses, as a key of fl_range. */
export interface SourceRangeKey {
  /** 0: addresses of pods. */
  readonly serviceId: number;
  /** Canonical, as `198.51.100.0/24`. */
  readonly prefix: string;
}

const SERVICE_ID_BITS = 32;
const MAPPED_BITS = 96;

export function encodeRangeKey({ serviceId, prefix }: SourceRangeKey): Uint8Array {
  const slash = prefix.lastIndexOf('/');
  const address = prefix.slice(0, slash);
  const family = familyOf(address);
  const bytes = new Uint8Array(SIZE.source_range_key);
  const bits = Number(prefix.slice(slash + 1)) + (family === 'IPv4' ? MAPPED_BITS : 0);
  bytes[0] = SERVICE_ID_BITS + bits;
  bytes.set(encodeU32(serviceId), 4);
  writeWideAddress(bytes, 8, { address, family });
  return bytes;
}

/** @param family as in the value: the key of ::ffff:0:0/96 is that of 0.0.0.0/0 */
export function decodeRangeKey(bytes: Uint8Array, family: Family): SourceRangeKey {
  const bits = decodeU32(bytes) - SERVICE_ID_BITS - (family === 'IPv4' ? MAPPED_BITS : 0);
  const address = addressText(bytes.subarray(family === 'IPv4' ? 20 : 8));
  return { serviceId: decodeU32(bytes.subarray(4)), prefix: `${address}/${bits}` };
}

export const encodeRange = (kind: RangeKind, family: Family): Uint8Array =>
  Uint8Array.of(RANGE_KIND[kind], family === 'IPv4' ? 4 : 6, 0, 0);

/** The kind of a value of fl_range; undefined: none that this version knows. */
export const rangeKind = (bytes: Uint8Array): RangeKind | undefined =>
  (Object.keys(RANGE_KIND) as readonly RangeKind[]).find((kind) => RANGE_KIND[kind] === bytes[0]);

/** The family of a value of fl_range. */
export const rangeFamily = (bytes: Uint8Array): Family => (bytes[1] === 6 ? 'IPv6' : 'IPv4');

/**
 * struct runtime_flags: numbers of bypassed cgroups, of wildcard frontends, and of sockets that are refused; UDP port
 * for requests in Geneve, MTU of the way between nodes.
 */
export const SKIPPED_CGROUPS_OFFSET = 0;
export const NODE_PORTS_OFFSET = 4;
export const REFUSED_SOCKETS_OFFSET = 8;
export const DIRECT_PORT_OFFSET = 12;
export const DIRECT_MTU_OFFSET = 14;

/** fl_not_service: bits for each family, and for the ports of NodePorts. */
export const RANGES = 65_536;
export const RANGES_PER_WORD = 64;
