// SPDX-License-Identifier: Apache-2.0
// Records of connections as a test writes them into shared memory: all that one has follows from a number.
import type { Proof } from '../../../../../src/engines/bpf/conn/proof.ts';
import { PROTOCOL_NUMBER } from '../../../../../src/engines/bpf/layout/layout.ts';
import type { Family } from '../../../../../src/model/types.ts';

const ESTABLISHED = 2;

/** @param words 16 or 32, which are filled */
export function writeConn(words: Uint32Array, number: number, family: Family, proof: Proof): void {
  words[0] = ESTABLISHED | ((number & 0xffff) << 16);
  words[1] = PROTOCOL_NUMBER.TCP << 8;
  words.set([number, ~number, number * 3, number * 5, 7, number * 11, number * 13, 0], 2);
  words.set([number * 17, number * 19], 10);
  const addresses = family === 'IPv4' ? 4 : 16;
  for (let at = 0; at < addresses; at += 1) words[12 + at] = number * (at + 23);
  words[1] = (words[1] ?? 0) | (proof(words) << 16);
}

/** Latest packet, uplink, both kinds of progress: they change while a connection lives, and no proof covers them. */
const CHANGES: ReadonlySet<number> = new Set([4, 6, 7, 8, 9]);

/** Whether all that stays follows from the number of the copy. */
export function isWholeConn(words: Uint32Array, family: Family, scratch: Uint32Array): boolean {
  writeConn(scratch, words[2] ?? 0, family, () => 0);
  for (let at = 0; at < words.length; at += 1) {
    const mask = at === 1 ? 0xffff : 0xffff_ffff;
    const differs = (((words[at] ?? 0) ^ (scratch[at] ?? 0)) & mask) !== 0;
    if (differs && !CHANGES.has(at)) return false;
  }
  return true;
}
