// SPDX-License-Identifier: Apache-2.0
// Digests of text, for names that have to be short.
import { hash } from 'node:crypto';

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The first 16 characters of the base32 form (RFC 4648) of the text's SHA-256: 80 bits, 10 bytes. */
export function shortDigest(text: string): string {
  const bytes = hash('sha256', text, 'buffer');
  return base32Of40Bits(bytes.readUIntBE(0, 5)) + base32Of40Bits(bytes.readUIntBE(5, 5));
}

/** Eight characters; the number has more bits than the operators of integers take. */
function base32Of40Bits(bits: number): string {
  let text = '';
  for (let unit = 32 ** 7; unit >= 1; unit /= 32) {
    text += BASE32[Math.floor(bits / unit) % 32];
  }
  return text;
}
