// SPDX-License-Identifier: Apache-2.0
// The cookies of direct return, made anew from docs/adr/0046, without the program's own code.
import { addressBytes } from '../../../src/lib/address-bytes.ts';
import { isIpv6 } from './text.ts';

export interface CookieSpec {
  readonly key: Uint8Array;
  /** That wraps the request. */
  readonly node: string;
  readonly source: string;
  readonly destination: string;
  readonly ports: readonly [source: number, destination: number];
  readonly protocol: number;
}

const mapped = (address: string): Uint8Array =>
  isIpv6(address)
    ? addressBytes(address, 'IPv6')
    : Uint8Array.of(...new Uint8Array(10), 255, 255, ...addressBytes(address, 'IPv4'));

/** SipHash-2-4 of the text that docs/adr/0046 has. */
export function cookieOf({ key, ports, protocol, ...addresses }: CookieSpec): Uint8Array {
  const { node, source, destination } = addresses;
  const text = Buffer.alloc(56);
  for (const [at, address] of [node, source, destination].entries())
    text.set(mapped(address), at * 16);
  for (const [at, word] of [protocol, ports[1], ports[0]].entries())
    text.writeUInt16LE(word, 48 + at * 2);
  const cookie = Buffer.alloc(8);
  cookie.writeBigUInt64LE(sipHash(key, text));
  return cookie;
}

const WORD = (1n << 64n) - 1n;
const rotate = (word: bigint, bits: bigint): bigint =>
  ((word << bits) | (word >> (64n - bits))) & WORD;

/** SipHash-2-4 (Aumasson and Bernstein). */
export function sipHash(key: Uint8Array, text: Uint8Array): bigint {
  const words = new DataView(key.buffer, key.byteOffset, key.byteLength);
  const [k0, k1] = [words.getBigUint64(0, true), words.getBigUint64(8, true)];
  let [v0, v1] = [k0 ^ 0x736f6d6570736575n, k1 ^ 0x646f72616e646f6dn];
  let [v2, v3] = [k0 ^ 0x6c7967656e657261n, k1 ^ 0x7465646279746573n];
  const round = (): void => {
    v0 = (v0 + v1) & WORD;
    v1 = rotate(v1, 13n) ^ v0;
    v0 = rotate(v0, 32n);
    v2 = (v2 + v3) & WORD;
    v3 = rotate(v3, 16n) ^ v2;
    v0 = (v0 + v3) & WORD;
    v3 = rotate(v3, 21n) ^ v0;
    v2 = (v2 + v1) & WORD;
    v1 = rotate(v1, 17n) ^ v2;
    v2 = rotate(v2, 32n);
  };
  const padded = Buffer.alloc(Math.floor(text.length / 8) * 8 + 8);
  padded.set(text);
  padded[padded.length - 1] = text.length & 255;
  for (let at = 0; at < padded.length; at += 8) {
    const word = padded.readBigUInt64LE(at);
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
  v2 ^= 255n;
  for (let n = 0; n < 4; n++) round();
  return v0 ^ v1 ^ v2 ^ v3;
}
