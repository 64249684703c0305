// SPDX-License-Identifier: Apache-2.0
// A hash of a name that every node finds the same: it has no secret.

/** murmur3 (x86, 32 bits) of ASCII text. */
export function murmur3(text: string, seed: number): number {
  let hash = seed;
  const whole = text.length & ~3;
  for (let at = 0; at < whole; at += 4) {
    hash ^= scrambled(wordAt(text, at, 4));
    hash = Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64;
  }
  if (whole < text.length) hash ^= scrambled(wordAt(text, whole, text.length - whole));
  hash ^= text.length;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function wordAt(text: string, at: number, bytes: number): number {
  let word = 0;
  for (let byte = 0; byte < bytes; byte += 1) word |= text.charCodeAt(at + byte) << (8 * byte);
  return word;
}

function scrambled(word: number): number {
  const mixed = Math.imul(word, 0xcc9e2d51);
  return Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593);
}
