// SPDX-License-Identifier: Apache-2.0
// Codecs for the structs of bpf/packet/types.h, as layout.ts has those of bpf/common/types.h, and conn-layout.ts those of
// connections.
// test/unit/engines/bpf/layout/packet-layout.test.ts compares sizes and offsets with the object's BTF.
import { addressText, writeAddress } from '../../../lib/address-bytes.ts';
import type { PortRange } from '../../../lib/port-range.ts';
import type { Family } from '../../../model/types.ts';

export const PACKET_SIZE = {
  fragment_key: 40,
  fragment_ports: 8,
  device: 32,
  ping_key: 16,
  peer_key: 16,
  peer: 8,
  cookies: 40,
  backend_node: 16,
  local_backend_key: 24,
  local_backend: 4,
  packet_settings: 72,
  traffic: 32,
  sweep_call: 12,
  swept: 16,
} as const;

/** What packet programs are loaded with, beside IPv4: see bpf/packet/features.h. */
export interface Features {
  readonly ipv6: boolean;
  /** Geneve and IPIP. Needs IPv6: nodes may reach each other by that alone. */
  readonly directReturn: boolean;
}

export interface PacketSettings {
  readonly secret: bigint;
  readonly timeoutSeconds: {
    readonly tcpNew: number;
    readonly tcpEstablished: number;
    readonly tcpHalfClosed: number;
    readonly tcpClosed: number;
    readonly udpNew: number;
    readonly udpEstablished: number;
  };
  /** ICMP errors and RSTs, on each CPU. */
  readonly answersPerSecond: number;
  /** For connections that cannot have their client's port. */
  readonly snatPorts: PortRange;
  /** Ports that Linux gives to connections of the node itself. */
  readonly localPorts: PortRange;
  /** Sources of masqueraded packets on devices without an address of their own. */
  readonly nodeAddress: Readonly<Partial<Record<Family, string>>>;
  readonly resetGone: boolean;
  /** TCP packets of no known connection are answered by a RST from this time of CLOCK_MONOTONIC on; before, they are left. */
  readonly resetUnknownFrom: number;
  readonly answerPing: boolean;
  /** No connection begins: rules serve those that do. */
  readonly leaveNew: boolean;
  /** What the programs are loaded with, for the next agent; absent: it is not told. */
  readonly features?: Features;
}

export interface DeviceValue {
  readonly ifindex: number;
  readonly snat: Readonly<Partial<Record<Family, string>>>;
  readonly isPod: boolean;
  /** No other node is behind it. */
  readonly leadsToPod: boolean;
  /** Its driver takes frames that programs send before the network stack. */
  readonly takesFrames: boolean;
  /** The stack drops what comes in by it for another MAC address. */
  readonly dropsOthers: boolean;
  /** Answers to what comes in by it leave by it. */
  readonly isUplink: boolean;
  /** Answers that the routes lead to it leave by it. */
  readonly isTunnel: boolean;
  /** Its Ethernet address, as `02:00:00:00:00:01`; undefined: what comes in by it passes the network stack. */
  readonly mac: string | undefined;
}

const view = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Absent addresses are all zero. */
function writeAddresses(
  bytes: Uint8Array,
  at: number,
  addresses: Readonly<Partial<Record<Family, string>>>,
): void {
  if (addresses.IPv4 !== undefined) writeAddress(bytes, at, addresses.IPv4, 'IPv4');
  if (addresses.IPv6 !== undefined) writeAddress(bytes, at + 4, addresses.IPv6, 'IPv6');
}

export function encodePacketSettings(settings: PacketSettings): Uint8Array {
  const bytes = new Uint8Array(PACKET_SIZE.packet_settings);
  const at = view(bytes);
  const { timeoutSeconds: timeout } = settings;
  at.setBigUint64(0, settings.secret, true);
  at.setUint32(8, timeout.tcpNew, true);
  at.setUint32(12, timeout.tcpEstablished, true);
  at.setUint32(16, timeout.tcpHalfClosed, true);
  at.setUint32(20, timeout.tcpClosed, true);
  at.setUint32(24, timeout.udpNew, true);
  at.setUint32(28, timeout.udpEstablished, true);
  at.setUint32(32, settings.answersPerSecond, true);
  at.setUint16(36, settings.snatPorts.first, true);
  at.setUint16(38, settings.snatPorts.last, true);
  writeAddresses(bytes, 40, settings.nodeAddress);
  at.setUint8(
    60,
    Number(settings.resetGone) |
      (Number(settings.answerPing) << 1) |
      (Number(settings.leaveNew) << 2) |
      bitsOf(settings.features),
  );
  at.setUint16(62, settings.localPorts.first, true);
  at.setUint16(64, settings.localPorts.last, true);
  at.setUint32(68, settings.resetUnknownFrom, true);
  return bytes;
}

const HAS_FEATURES = 1 << 3;

const bitsOf = (features: Features | undefined): number =>
  features === undefined
    ? 0
    : HAS_FEATURES | (Number(features.ipv6) << 4) | (Number(features.directReturn) << 5);

/** undefined: an earlier version has written the settings, or nobody. */
export function decodeFeatures(bytes: Uint8Array): Features | undefined {
  const flags = bytes[60] ?? 0;
  if ((flags & HAS_FEATURES) === 0) return undefined;
  return { ipv6: (flags & (1 << 4)) !== 0, directReturn: (flags & (1 << 5)) !== 0 };
}

/** Of reset_unknown_from. */
export const RESET_UNKNOWN_AT = 68;

/** Later than any clock: a takeover that has not begun. */
export const NEVER_RESETS = 0xffff_ffff;

/** The settings of programs whose place another engine takes, until this one starts again. */
export function withoutResets(settings: Uint8Array, at = RESET_UNKNOWN_AT): Uint8Array {
  const copy = settings.slice();
  new DataView(copy.buffer).setUint32(at, NEVER_RESETS, true);
  return copy;
}

/** What a later agent keeps of settings. */
export type KeptSettings = Pick<PacketSettings, 'secret' | 'resetUnknownFrom' | 'leaveNew'>;

/** undefined: no agent has written settings. */
export function decodeKeptSettings(bytes: Uint8Array): KeptSettings | undefined {
  const at = view(bytes);
  const secret = at.getBigUint64(0, true);
  if (secret === 0n) return undefined;
  return {
    secret,
    resetUnknownFrom: at.getUint32(68, true),
    leaveNew: (at.getUint8(60) & 4) !== 0,
  };
}

export function encodeDevice(value: DeviceValue): Uint8Array {
  const bytes = new Uint8Array(PACKET_SIZE.device);
  view(bytes).setUint32(0, value.ifindex, true);
  writeAddresses(bytes, 4, value.snat);
  const { isPod, leadsToPod, takesFrames, dropsOthers, isUplink, isTunnel } = value;
  const flags = [isPod, leadsToPod, takesFrames, dropsOthers, isUplink, isTunnel];
  bytes[24] = flags.reduce((bits, flag, bit) => bits | (Number(flag) << bit), 0);
  if (value.mac !== undefined) bytes.set(Buffer.from(value.mac.replaceAll(':', ''), 'hex'), MAC_AT);
  return bytes;
}

const MAC_AT = 26;

/** struct ping_key: v4-mapped for IPv4. */
export function encodePingKey(address: string): Uint8Array {
  const bytes = new Uint8Array(PACKET_SIZE.ping_key);
  if (address.includes(':')) {
    writeAddress(bytes, 0, address, 'IPv6');
  } else {
    bytes.fill(0xff, 10, 12);
    writeAddress(bytes, 12, address, 'IPv4');
  }
  return bytes;
}

export function decodePingKey(bytes: Uint8Array): string {
  const isMapped = bytes.subarray(0, 12).every((byte, at) => byte === (at < 10 ? 0 : 0xff));
  return addressText(isMapped ? bytes.subarray(12) : bytes);
}

/** One call of the sweep: buckets of the clients' index of one family. */
export interface SweepCall {
  readonly family: Family;
  readonly first: number;
  readonly count: number;
}

/** Frames of test runs have at least as many bytes. */
const LEAST_FRAME = 64;
const ETHERNET_HEADER = 14;
/** enum family. */
const FAMILY_NUMBER: Readonly<Record<Family, number>> = { IPv4: 4, IPv6: 6 };

/** In the place of a frame's packet. */
export function encodeSweepCall({ family, first, count }: SweepCall): Uint8Array {
  const bytes = new Uint8Array(LEAST_FRAME);
  bytes[ETHERNET_HEADER] = FAMILY_NUMBER[family];
  view(bytes).setUint32(ETHERNET_HEADER + 4, first, true);
  view(bytes).setUint32(ETHERNET_HEADER + 8, count, true);
  return bytes;
}

/** What the sweep has done: connections that it looked at, and those of them that it ended. */
export interface Swept {
  readonly entries: number;
  readonly expired: number;
}

export function decodeSwept(bytes: Uint8Array): Swept {
  const at = view(bytes);
  const [entries = 0, expired = 0] = [0, 8].map((offset) => Number(at.getBigUint64(offset, true)));
  return { entries, expired };
}
