// SPDX-License-Identifier: Apache-2.0
// Digests of text, for names that have to be short.
import { hash } from 'node:crypto';

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
/** Two characters for each ten bits. */
const PAIRS = Array.from({ length: 1024 }, (_, bits) => `${BASE32[bits >> 5]}${BASE32[bits & 31]}`);

/** The first 16 characters of the base32 form (RFC 4648) of the text's SHA-256: 80 bits. */
export function shortDigest(text: string): string {
  // As hexadecimal text: a buffer takes three times as long.
  const digits = hash('sha256', text, 'hex');
  return (
    twentyBits(digits, 0) + twentyBits(digits, 5) + twentyBits(digits, 10) + twentyBits(digits, 15)
  );
}

/** Five hexadecimal digits as four characters. */
function twentyBits(digits: string, at: number): string {
  const bits = Number.parseInt(digits.slice(at, at + 5), 16);
  return `${PAIRS[bits >> 10]}${PAIRS[bits & 1023]}`;
}
