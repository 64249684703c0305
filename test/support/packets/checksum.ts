// SPDX-License-Identifier: Apache-2.0
// The Internet checksum (RFC 1071), written without a look at the kernel programs.

/** Sum of big-endian 16-bit words, with carries folded in; an odd last byte is padded with zero. */
export function onesSum(bytes: Uint8Array, initial = 0): number {
  let sum = initial;
  for (let at = 0; at < bytes.length; at += 2)
    sum += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return sum;
}

export const checksum = (bytes: Uint8Array, initial = 0): number =>
  0xffff - onesSum(bytes, initial);

/** Sum of what a transport checksum covers besides the segment: addresses, length and protocol. */
export function pseudoHeader(addresses: Uint8Array, length: number, protocol: number): number {
  return onesSum(
    Uint8Array.of(0, protocol, (length >>> 24) & 255, (length >>> 16) & 255),
    onesSum(Uint8Array.of((length >>> 8) & 255, length & 255), onesSum(addresses)),
  );
}
