// SPDX-License-Identifier: Apache-2.0
// Frames of IPIP: a packet behind one IP header of its own family, read by its own rules.
import { addressText } from '../../../src/lib/address-bytes.ts';
import { onesSum } from './checksum.ts';
import { describeFrame } from './describe.ts';

const ETHERNET = 14;

export interface InIpip {
  /** `192.0.2.11 > 192.0.2.12 protocol=4 ttl=64 df`. */
  readonly outer: string;
  /** The Ethernet header of what is inside is that of the frame. */
  readonly inner: string;
}

export function readIpip(frame: Uint8Array): InIpip {
  const isIpv4 = (frame[ETHERNET] ?? 0) >> 4 === 4;
  const size = isIpv4 ? 20 : 40;
  const header = frame.subarray(ETHERNET, ETHERNET + size);
  const inner = frame.subarray(ETHERNET + size);
  return {
    outer: isIpv4 ? outer4(header, inner.length) : outer6(header, inner.length),
    inner: describeFrame(Uint8Array.of(...frame.subarray(0, ETHERNET), ...inner)),
  };
}

const u16 = (bytes: Uint8Array, at: number): number =>
  ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
const textOf = (bytes: Uint8Array, from: number, to: number): string =>
  addressText(bytes.subarray(from, to));

const outer4 = (bytes: Uint8Array, inside: number): string =>
  [
    `${textOf(bytes, 12, 16)} > ${textOf(bytes, 16, 20)} protocol=${bytes[9]} ttl=${bytes[8]}`,
    ...(u16(bytes, 6) === 0x4000 ? ['df'] : [`fragment=${u16(bytes, 6)}`]),
    ...(bytes[0] === 0x45 && bytes[1] === 0 ? [] : ['!header']),
    ...(u16(bytes, 2) === 20 + inside ? [] : ['!length']),
    ...(onesSum(bytes) === 0xffff ? [] : ['!ip-checksum']),
  ].join(' ');

const outer6 = (bytes: Uint8Array, inside: number): string =>
  [
    `${textOf(bytes, 8, 24)} > ${textOf(bytes, 24, 40)} protocol=${bytes[6]} ttl=${bytes[7]}`,
    ...(u16(bytes, 0) === 0x6000 && u16(bytes, 2) === 0 ? [] : ['!header']),
    ...(u16(bytes, 4) === inside ? [] : ['!length']),
  ].join(' ');
