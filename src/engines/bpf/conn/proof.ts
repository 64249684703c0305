// SPDX-License-Identifier: Apache-2.0
// The proof of a record of a connection, as proof_of() in bpf/packet/conn/record.h: 16 bits of a keyed hash of all that
// does not change while it lives. A copy whose proof does not fit was made while the record was another one's. In numbers
// of 32 bits: of a million records bigints would take seconds.
import type { Family } from '../../../model/types.ts';

export type Proof = (words: Uint32Array) => number;

const MULTIPLIER = 0x9e37_79b9_7f4a_7c15n;

/** Words of 64 bits that hold no padding. */
const WORDS: Readonly<Record<Family, number>> = { IPv4: 8, IPv6: 14 };
/** The word before the addresses, which has the ports. */
const FIRST = 5;

const lowOf = (word: bigint): number => Number(BigInt.asIntN(32, word));
const highOf = (word: bigint): number => Number(BigInt.asIntN(32, word >> 32n));

/** Upper half of the product of two numbers of 32 bits: four products of 16 bits, since no number here may be longer. */
function productHigh(a: number, b: number): number {
  const [aLow, aHigh, bLow, bHigh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const first = Math.imul(aLow, bLow) >>> 16;
  const second = (Math.imul(aHigh, bLow) + first) | 0;
  const third = (Math.imul(aLow, bHigh) + (second & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (second >>> 16) + (third >>> 16)) | 0;
}

/** Upper half of the product of two words; the lower one is that of their lower halves. */
const wordsHigh = (low: number, high: number, byLow: number, byHigh: number): number =>
  (productHigh(low, byLow) + Math.imul(low, byHigh) + Math.imul(high, byLow)) | 0;

export function proofOf(family: Family, secret: bigint): Proof {
  const count = WORDS[family];
  const factors = Array.from({ length: count }, (_, at) => MULTIPLIER * BigInt(2 * at + 1));
  const [byLow, byHigh] = [Int32Array.from(factors, lowOf), Int32Array.from(factors, highOf)];
  const [keyLow, keyHigh] = [lowOf(secret), highOf(secret)];
  const [lastLow, lastHigh] = [lowOf(MULTIPLIER), highOf(MULTIPLIER)];
  return (words) => {
    let [low, high] = [0, 0];
    for (let at = 1; at < count; at += 1) {
      if (at === 4) at = FIRST;
      const wordLow = at < 4 ? partOf(words, at) : (words[2 * at] ?? 0);
      const wordHigh = upperOf(words, at);
      const [factorLow, factorHigh] = [byLow[at] ?? 0, byHigh[at] ?? 0];
      const sum = (low + Math.imul(wordLow, factorLow)) | 0;
      const carry = sum >>> 0 < low >>> 0 ? 1 : 0;
      high = (high + wordsHigh(wordLow, wordHigh, factorLow, factorHigh) + carry) | 0;
      low = sum;
    }
    return wordsHigh(low ^ keyLow, high ^ keyHigh, lastLow, lastHigh) >>> 16;
  };
}

/** Upper halves: the frontend's id; of struct conn_life's word the middle port. */
function upperOf(words: Uint32Array, at: number): number {
  if (at === 1) return words[3] ?? 0;
  if (at === 3) return (words[9] ?? 0) & 0xffff;
  return at >= FIRST ? (words[2 * at + 1] ?? 0) : 0;
}

/** Lower halves of the first three: the backend's id, the birth, and of struct conn_life the generation and the protocol. */
function partOf(words: Uint32Array, at: number): number {
  if (at === 1) return words[2] ?? 0;
  if (at === 2) return words[5] ?? 0;
  return (((words[0] ?? 0) >>> 16) << 8) | (((words[1] ?? 0) >>> 8) & 0xff);
}
