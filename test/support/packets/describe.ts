// SPDX-License-Identifier: Apache-2.0
// From the bytes of a packet to its text; what is wrong with it ends the text, as in `!tcp-checksum`.
import { addressText } from '../../../src/lib/address-bytes.ts';
import { payloadOf } from './build.ts';
import { onesSum, pseudoHeader } from './checksum.ts';
import { EXTENSIONS, SCTP_CHUNKS, TCP_FLAGS } from './text.ts';

/** The part of a packet that is still to be read. */
interface Network {
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
  readonly protocol: number;
  readonly segment: Uint8Array;
  readonly words: readonly string[];
  /** The transport header is there, and so is all that its checksum covers. */
  readonly isWhole: boolean;
  readonly hasPorts: boolean;
}

const u16 = (bytes: Uint8Array, at: number): number =>
  ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
const u32 = (bytes: Uint8Array, at: number): number => u16(bytes, at) * 65_536 + u16(bytes, at + 2);

const fragmentWords = (field: number, id: number): readonly string[] => [
  `frag=${field & ~7}${(field & 1) === 0 ? '' : '+'}`,
  `id=${id}`,
];

function readIpv4(bytes: Uint8Array): Network {
  const size = ((bytes[0] ?? 0) & 15) * 4;
  const length = u16(bytes, 2);
  const field = u16(bytes, 6);
  const isFragment = (field & 0x3fff) !== 0;
  const offset = (field & 0x1fff) * 8;
  const words = [
    ...(size > 20 ? ['options'] : []),
    ...(isFragment ? fragmentWords(offset | Number((field & 0x2000) !== 0), u16(bytes, 4)) : []),
    ...(bytes[8] === 64 ? [] : [`ttl=${bytes[8]}`]),
    ...(onesSum(bytes.subarray(0, size)) === 0xffff ? [] : ['!ip-checksum']),
  ];
  return {
    source: bytes.subarray(12, 16),
    destination: bytes.subarray(16, 20),
    protocol: bytes[9] ?? 0,
    segment: bytes.subarray(size, length),
    words,
    isWhole: !isFragment && bytes.length >= length,
    hasPorts: offset === 0,
  };
}

function readIpv6(bytes: Uint8Array): Network {
  const length = 40 + u16(bytes, 4);
  const names = Object.entries(EXTENSIONS);
  const found: string[] = [];
  let fragment: readonly string[] = [];
  let next = bytes[6] ?? 59;
  let at = 40;
  let offset = 0;
  for (;;) {
    const name = names.find(([, number]) => number === next)?.[0];
    if (name === undefined && next !== 44) break;
    if (name !== undefined) found.push(name);
    if (next === 44) {
      offset = u16(bytes, at + 2) & ~7;
      fragment = fragmentWords(u16(bytes, at + 2), u32(bytes, at + 4));
    }
    const size = next === 44 ? 8 : name === 'auth' ? ((bytes[at + 1] ?? 0) + 2) * 4 : 8;
    next = bytes[at] ?? 59;
    at += size;
    if (offset > 0) break;
  }
  return {
    source: bytes.subarray(8, 24),
    destination: bytes.subarray(24, 40),
    protocol: next,
    segment: bytes.subarray(at, length),
    words: [
      ...(found.length > 0 ? [`ext=${found.join(',')}`] : []),
      ...fragment,
      ...(bytes[7] === 64 ? [] : [`ttl=${bytes[7]}`]),
    ],
    isWhole: fragment.length === 0 && bytes.length >= length,
    hasPorts: offset === 0,
  };
}

function payloadWords(bytes: Uint8Array): readonly string[] {
  if (bytes.length === 0) return [];
  const isIntact = Buffer.compare(bytes, payloadOf(bytes.length)) === 0;
  return [`payload=${bytes.length}`, ...(isIntact ? [] : ['!payload'])];
}

const isSumRight = ({ source, destination, protocol, segment }: Network): boolean =>
  onesSum(
    segment,
    protocol === 1
      ? 0
      : pseudoHeader(Uint8Array.of(...source, ...destination), segment.length, protocol),
  ) === 0xffff;

function tcpWords(network: Network): readonly string[] {
  const { segment } = network;
  const flags = TCP_FLAGS.filter((_, bit) => ((segment[13] ?? 0) >>> bit) & 1);
  return [
    ...flags,
    ...(u32(segment, 4) === 0 ? [] : [`seq=${u32(segment, 4)}`]),
    ...(u32(segment, 8) === 0 ? [] : [`ack=${u32(segment, 8)}`]),
    ...(network.isWhole ? payloadWords(segment.subarray(20)) : []),
    ...(!network.isWhole || isSumRight(network) ? [] : ['!tcp-checksum']),
  ];
}

function udpWords(network: Network): readonly string[] {
  const { segment, isWhole } = network;
  if (!isWhole) return [];
  if (u16(segment, 6) === 0) return [...payloadWords(segment.subarray(8)), 'nosum'];
  return [...payloadWords(segment.subarray(8)), ...(isSumRight(network) ? [] : ['!udp-checksum'])];
}

function sctpWords(segment: Uint8Array): readonly string[] {
  const tag = u32(segment, 4);
  const isChunk = u32(segment, 12) % 0x100_0000 === 4;
  const name = Object.entries(SCTP_CHUNKS).find(([, type]) => isChunk && type === segment[12])?.[0];
  return [
    ...(name === undefined ? [] : [name]),
    ...(tag === 1 ? [] : [`tag=${tag}`]),
    ...payloadWords(segment.subarray(name === undefined ? 12 : 16)),
  ];
}

function icmpWords(network: Network): readonly string[] {
  const { segment, protocol } = network;
  const type = segment[0] ?? 0;
  const isError = protocol === 1 ? [3, 11, 12].includes(type) : type < 128;
  return [
    `${type}/${segment[1]}`,
    ...(u32(segment, 4) === 0 ? [] : [`mtu=${u32(segment, 4)}`]),
    ...(isError ? [] : payloadWords(segment.subarray(8))),
    ...(isSumRight(network) ? [] : ['!icmp-checksum']),
    ...(isError ? ['|', describeNetworkPacket(segment.subarray(8))] : []),
  ];
}

const NAMES: Readonly<Record<number, string>> = {
  6: 'tcp',
  17: 'udp',
  132: 'sctp',
  1: 'icmp',
  58: 'icmp6',
};

function transportWords(network: Network): readonly string[] {
  if (!network.hasPorts) return [];
  switch (NAMES[network.protocol]) {
    case 'tcp':
      return tcpWords(network);
    case 'udp':
      return udpWords(network);
    case 'sctp':
      return network.isWhole ? sctpWords(network.segment) : [];
    case 'icmp':
    case 'icmp6':
      return icmpWords(network);
    default:
      return [];
  }
}

export function describeNetworkPacket(bytes: Uint8Array): string {
  const network = (bytes[0] ?? 0) >>> 4 === 6 ? readIpv6(bytes) : readIpv4(bytes);
  const { protocol, segment, hasPorts } = network;
  const shown = (address: Uint8Array, port: number): string => {
    const text = addressText(address);
    if (!hasPorts || protocol === 1 || protocol === 58) return text;
    return address.length === 4 ? `${text}:${port}` : `[${text}]:${port}`;
  };
  const words = [...transportWords(network)];
  const quote = words.indexOf('|');
  words.splice(quote < 0 ? words.length : quote, 0, ...network.words);
  return [
    shown(network.source, u16(segment, 0)),
    '>',
    shown(network.destination, u16(segment, 2)),
    NAMES[protocol] ?? protocol,
    ...words,
  ].join(' ');
}

/** With an Ethernet header. */
export function describeFrame(bytes: Uint8Array): string {
  const tags: number[] = [];
  let at = 12;
  while (u16(bytes, at) === 0x8100) {
    tags.push(u16(bytes, at + 2));
    at += 4;
  }
  const text = describeNetworkPacket(bytes.subarray(at + 2));
  return tags.length === 0 ? text : `${text} vlan=${tags.join(',')}`;
}
