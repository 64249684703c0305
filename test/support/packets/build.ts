// SPDX-License-Identifier: Apache-2.0
// From the text of a packet to its bytes, with right checksums unless the text says otherwise.
import { addressBytes } from '../../../src/lib/address-bytes.ts';
import { checksum, pseudoHeader } from './checksum.ts';
import {
  EXTENSIONS,
  isIpv6,
  numberOf,
  type PacketText,
  PROTOCOLS,
  readText,
  SCTP_CHUNKS,
  TCP_FLAGS,
} from './text.ts';

const DESTINATION_MAC = [0x02, 0, 0, 0, 0, 1];
const SOURCE_MAC = [0x02, 0, 0, 0, 0, 2];

const u16 = (value: number): readonly number[] => [(value >>> 8) & 255, value & 255];
const u32 = (value: number): readonly number[] => [...u16(value >>> 16), ...u16(value & 0xffff)];

const addressOf = (address: string): Uint8Array =>
  addressBytes(address, isIpv6(address) ? 'IPv6' : 'IPv4');

/** Bytes that tell their place, so that a moved or lost one shows. */
export const payloadOf = (size: number): Uint8Array =>
  Uint8Array.from({ length: size }, (_, index) => (index * 7 + 1) & 255);

function tcp(text: PacketText): number[] {
  const flags = TCP_FLAGS.reduce(
    (bits, flag, bit) => bits | (Number(text.flags.has(flag)) << bit),
    0,
  );
  return [
    ...u16(text.sourcePort),
    ...u16(text.destinationPort),
    ...u32(numberOf(text, 'seq')),
    ...u32(numberOf(text, 'ack')),
    ...[Number(text.values['doff'] ?? 5) << 4, flags],
    ...u16(Number(text.values['window'] ?? 1000)),
    ...[0, 0, 0, 0],
  ];
}

function transport(text: PacketText): Uint8Array {
  const payload = payloadOf(numberOf(text, 'payload'));
  const ports = [...u16(text.sourcePort), ...u16(text.destinationPort)];
  switch (text.protocol) {
    case 'tcp':
      return Uint8Array.of(...tcp(text), ...payload);
    case 'udp':
      return Uint8Array.of(...ports, ...u16(8 + payload.length), 0, 0, ...payload);
    case 'sctp':
      return Uint8Array.of(
        ...[...ports, ...u32(Number(text.values['tag'] ?? 1)), ...u32(0xfeedface)],
        ...[...text.flags].flatMap((name) => chunk(SCTP_CHUNKS[name])),
        ...payload,
      );
    default:
      return icmp(text, payload);
  }
}

const chunk = (type: number | undefined): readonly number[] =>
  type === undefined ? [] : [type, 0, 0, 4];

function icmp(text: PacketText, payload: Uint8Array): Uint8Array {
  const [type = 8, code = 0] = [...text.flags]
    .filter((flag) => /^\d+\/\d+$/.test(flag))
    .flatMap((flag) => flag.split('/').map(Number));
  const quoted = text.inner === undefined ? payload : networkPacket(text.inner);
  const cut = text.values['quote'];
  const rest = cut === undefined ? quoted : quoted.subarray(0, Number(cut));
  return Uint8Array.of(type, code, 0, 0, ...u32(numberOf(text, 'mtu')), ...rest);
}

const CHECKSUM_AT: Readonly<Record<string, number>> = { tcp: 16, udp: 6, icmp: 2, icmp6: 2 };

/** Of the whole datagram, also if it is then fragmented. */
function withChecksum(text: PacketText, segment: Uint8Array): Uint8Array {
  const at = CHECKSUM_AT[text.protocol];
  if (at === undefined || text.flags.has('nosum')) return segment;
  const addresses = Uint8Array.of(...addressOf(text.source), ...addressOf(text.destination));
  const covered =
    text.protocol === 'icmp'
      ? 0
      : pseudoHeader(addresses, segment.length, PROTOCOLS[text.protocol] ?? 0);
  const sum = checksum(segment, covered);
  const bytes = text.protocol === 'udp' && sum === 0 ? [255, 255] : u16(sum);
  segment.set(bytes, at);
  return segment;
}

/** `frag=OFFSET+` has more fragments behind it, `frag=OFFSET` is the last; `take=N` bytes of the datagram. */
function fragmentOf(text: PacketText, whole: Uint8Array): { part: Uint8Array; field: number } {
  const [, offset = '0', more = ''] = /^(\d+)(\+?)$/.exec(text.values['frag'] ?? '') ?? [];
  const from = Number(offset);
  const size = Number(text.values['take'] ?? whole.length - from);
  return { part: whole.subarray(from, from + size), field: from | Number(more === '+') };
}

function ipv4(text: PacketText, whole: Uint8Array): Uint8Array {
  const { part, field } = fragmentOf(text, whole);
  const options = text.flags.has('options') ? [1, 1, 1, 1, 1, 1, 1, 0] : [];
  const size = 20 + options.length;
  const header = Uint8Array.of(
    ...[(4 << 4) | Number(text.values['ihl'] ?? size / 4), 0],
    ...u16(Number(text.values['length'] ?? size + part.length)),
    ...u16(numberOf(text, 'id')),
    ...u16((field >>> 3) | ((field & 1) << 13)),
    ...[Number(text.values['ttl'] ?? 64), Number(text.values['proto'] ?? PROTOCOLS[text.protocol])],
    ...[0, 0],
    ...addressOf(text.source),
    ...addressOf(text.destination),
    ...options,
  );
  header.set(u16(checksum(header)), 10);
  return Uint8Array.of(...header, ...part);
}

function extension(name: string, next: number): readonly number[] {
  return name === 'auth'
    ? [next, 4, ...Array.from({ length: 22 }, () => 0)]
    : [next, 0, 1, 4, 0, 0, 0, 0];
}

function ipv6(text: PacketText, whole: Uint8Array): Uint8Array {
  const { part, field } = fragmentOf(text, whole);
  let next = PROTOCOLS[text.protocol] ?? 59;
  let headers: readonly number[] = [];
  if (text.values['frag'] !== undefined) {
    headers = [next, 0, ...u16(field), ...u32(numberOf(text, 'id'))];
    next = 44;
  }
  for (const name of (text.values['ext'] ?? '').split(',').filter(Boolean).reverse()) {
    headers = [...extension(name, next), ...headers];
    next = EXTENSIONS[name] ?? 59;
  }
  return Uint8Array.of(
    ...[0x60, 0, 0, 0],
    ...u16(Number(text.values['length'] ?? headers.length + part.length)),
    ...[next, Number(text.values['ttl'] ?? 64)],
    ...addressOf(text.source),
    ...addressOf(text.destination),
    ...headers,
    ...part,
  );
}

function networkPacket(text: PacketText): Uint8Array {
  const segment = withChecksum(text, transport(text));
  return isIpv6(text.source) ? ipv6(text, segment) : ipv4(text, segment);
}

/** Without an Ethernet header. */
export const buildNetworkPacket = (text: string): Uint8Array => networkPacket(readText(text));

/** `cut=N` leaves the first N bytes of the network packet. */
export function buildFrame(line: string): Uint8Array {
  const text = readText(line);
  const packet = networkPacket(text);
  const type = isIpv6(text.source) ? 0x86dd : 0x0800;
  const tags = (text.values['vlan'] ?? '').split(',').filter(Boolean);
  return Uint8Array.of(
    ...[...DESTINATION_MAC, ...SOURCE_MAC],
    ...tags.flatMap((tag) => [...u16(0x8100), ...u16(Number(tag))]),
    ...u16(type),
    ...packet.subarray(0, Number(text.values['cut'] ?? packet.length)),
  );
}

/** With "don't fragment", which the text of packets does not have. */
export function withDf(frame: Uint8Array): Uint8Array {
  const bytes = frame.slice();
  bytes[20] = (bytes[20] ?? 0) | 0x40;
  bytes.set([0, 0], 24);
  const sum = checksum(bytes.subarray(14, 34));
  bytes.set([sum >>> 8, sum & 255], 24);
  return bytes;
}
