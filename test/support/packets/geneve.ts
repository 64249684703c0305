// SPDX-License-Identifier: Apache-2.0
// Frames of direct return: a packet behind IP, UDP and Geneve headers, built and read by their own rules.
import { addressBytes, addressText } from '../../../src/lib/address-bytes.ts';
import { buildFrame } from './build.ts';
import { describeFrame } from './describe.ts';
import { isIpv6 } from './text.ts';

const ETHERNET = 14;
const UDP = 8;
const GENEVE = 8;

export interface Wrapped {
  /** Source, destination and words of the outer packet, without the source port, which is a hash. */
  readonly outer: string;
  readonly sourcePort: number;
  readonly vni: number;
  readonly backend: string;
  /** The whole header of the option, and what is before the port, as hex. */
  readonly option: string;
  /** As hex; empty: none. */
  readonly cookie: string;
  readonly inner: string;
}

const u16 = (bytes: Uint8Array, at: number): number =>
  ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** Where the UDP header of a frame without VLAN tags is. */
const udpAt = (frame: Uint8Array): number => {
  const first = frame[ETHERNET] ?? 0;
  return ETHERNET + (first >> 4 === 6 ? 40 : (first & 15) * 4);
};

const withEthernet = (type: number, packet: Uint8Array): Uint8Array =>
  Uint8Array.of(
    ...[0x02, 0, 0, 0, 0, 1],
    ...[0x02, 0, 0, 0, 0, 2],
    type >> 8,
    type & 255,
    ...packet,
  );

/** Undefined: it is not in Geneve. The Ethernet header of what is inside is a made-up one. */
export function readWrapped(frame: Uint8Array): Wrapped {
  const at = udpAt(frame);
  const geneve = at + UDP;
  const options = ((frame[geneve] ?? 0) & 63) * 4;
  const option = frame.subarray(geneve + GENEVE, geneve + GENEVE + options);
  const size = u16(frame, geneve + 2) === 0x86dd ? 16 : 4;
  const address = option.subarray(8, 8 + size);
  const port = u16(option, 6);
  const words = describeFrame(
    withEthernet(at === ETHERNET + 40 ? 0x86dd : 0x0800, frame.subarray(ETHERNET)),
  );
  return {
    outer: words.replace(/:\d+ >/, ' >').replace(/ payload=\d+ !payload/, ''),
    sourcePort: u16(frame, at),
    vni: u16(frame, geneve + 4) * 256 + (frame[geneve + 6] ?? 0),
    backend:
      address.length === 4
        ? `${addressText(address)}:${port}`
        : `[${addressText(address)}]:${port}`,
    option: hex(option.subarray(0, 6)),
    cookie: hex(option.subarray(8 + size)),
    inner: describeFrame(
      withEthernet(u16(frame, geneve + 2), frame.subarray(geneve + GENEVE + options)),
    ),
  };
}

export interface WrapSpec {
  readonly from: string;
  readonly to: string;
  readonly port?: number;
  readonly backend: { readonly address: string; readonly port: number };
  readonly inner: string | Uint8Array;
  readonly cookie?: Uint8Array | undefined;
  /** Bytes of the datagram that are in a second fragment; this is the first one. */
  readonly isCutBefore?: number;
}

/** What a node sends for the frame `inner`: as docs/adr/0037 says, from the text of that. */
export function wrap({
  from,
  to,
  port = 6081,
  backend,
  inner,
  cookie = new Uint8Array(),
  isCutBefore = 0,
}: WrapSpec): Uint8Array {
  const frame = typeof inner === 'string' ? buildFrame(inner) : inner;
  const address = addressBytes(backend.address, isIpv6(backend.address) ? 'IPv6' : 'IPv4');
  const words = 1 + (address.length + cookie.length) / 4;
  const geneve = Uint8Array.of(
    ...[1 + words, 0x40, frame[12] ?? 0, frame[13] ?? 0, 0xfa, 0x1e, 0xad, 0],
    ...[0xff, 0x46, 0x81, words, 1, 0, backend.port >> 8, backend.port & 255],
    ...address,
    ...cookie,
    ...frame.subarray(ETHERNET),
  );
  const endpoint = (a: string, p: number): string => (isIpv6(a) ? `[${a}]:${p}` : `${a}:${p}`);
  const cut = isCutBefore === 0 ? '' : ` frag=0+ id=9 take=${UDP + geneve.length}`;
  const outer = buildFrame(
    `${endpoint(from, 0xc123)} > ${endpoint(to, port)} udp payload=${geneve.length + isCutBefore} nosum${cut}`,
  );
  outer.set(geneve, outer.length - geneve.length);
  return outer;
}
