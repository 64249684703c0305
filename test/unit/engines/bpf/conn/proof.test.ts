// SPDX-License-Identifier: Apache-2.0
// The proof in numbers of 32 bits against the same in bigints, as proof_of() in bpf/packet/conn/record.h has it.
import { expect, test } from 'vitest';
import { proofOf } from '../../../../../src/engines/bpf/conn/proof.ts';
import { randomOf, SEED } from '../../../../support/random.ts';

const MULTIPLIER = 0x9e37_79b9_7f4a_7c15n;
const u64 = (value: bigint): bigint => BigInt.asUintN(64, value);

function expected(words: Uint32Array, count: number, secret: bigint): number {
  const word = (at: number): bigint =>
    (BigInt(words[2 * at + 1] ?? 0) << 32n) | BigInt(words[2 * at] ?? 0);
  const weigh = (value: bigint, at: number): bigint =>
    u64(value * u64(MULTIPLIER * BigInt(2 * at + 1)));
  const [generation, protocol] = [(word(0) >> 16n) & 0xffffn, (word(0) >> 40n) & 0xffn];
  let sum = weigh(word(1), 1) + weigh(BigInt(words[5] ?? 0), 2);
  const middle = BigInt(words[9] ?? 0) & 0xffffn;
  sum += weigh((middle << 32n) | (generation << 8n) | protocol, 3);
  for (let at = 5; at < count; at += 1) sum += weigh(word(at), at);
  const mixed = u64((u64(sum) ^ secret) * MULTIPLIER);
  return Number((mixed ^ (mixed >> 32n)) >> 48n);
}

test.each([
  ['IPv4', 16, 8],
  ['IPv6', 32, 14],
] as const)('%s', (family, size, count) => {
  const random = randomOf(SEED);
  const number = (): number => Math.floor(random() * 2 ** 32);
  for (let turn = 0; turn < 2000; turn += 1) {
    const words = Uint32Array.from({ length: size }, () =>
      turn % 3 === 0 ? 2 ** 32 - 1 - (number() % 3) : number(),
    );
    const secret = (BigInt(number()) << 32n) | BigInt(number());
    expect(proofOf(family, secret)(words)).toBe(expected(words, count, secret));
  }
});

test('changes with all that stays, and with nothing that changes', () => {
  const proof = proofOf('IPv4', 0x0123_4567_89ab_cdefn);
  const words = Uint32Array.from({ length: 16 }, (_, index) => index * 0x0101_0101);
  const before = proof(words);
  const changesWith = (word: number, bit: number): boolean => {
    words[word] = (words[word] ?? 0) ^ (1 << bit);
    const after = proof(words);
    words[word] = (words[word] ?? 0) ^ (1 << bit);
    return after !== before;
  };
  // Backend and frontend, birth, middle port, ports, addresses; generation and protocol.
  for (const word of [2, 3, 5, 9, 10, 11, 12, 13, 14, 15]) expect(changesWith(word, 7)).toBe(true);
  expect(changesWith(0, 16) && changesWith(1, 8)).toBe(true);
  // State, flags, syn and the proof; latest packet, uplink, progress; marks.
  expect(changesWith(9, 16)).toBe(false);
  for (const word of [4, 6, 7, 8]) expect(changesWith(word, 7)).toBe(false);
  expect(changesWith(0, 0) || changesWith(0, 8) || changesWith(1, 0) || changesWith(1, 20)).toBe(
    false,
  );
});
