// SPDX-License-Identifier: Apache-2.0
// Addresses that stand for others: two that share n bits of prefix do so afterwards, so that what was in a range still is.
// Loopback, link-local and multicast addresses stay in their ranges, and nothing else gets there. Pure.
import ipaddr from 'ipaddr.js';
import { canonicalAddress } from '../../lib/ip.ts';

/** 32 bytes that depend on the text and on a secret. */
export type Digest = (text: string) => Uint8Array;

interface Special {
  readonly bytes: readonly number[];
  readonly bits: number;
  /** What is in it stays as it is. */
  readonly isKept: boolean;
}

const special = (prefix: string, isKept = true): Special => {
  const [address, bits] = ipaddr.parseCIDR(prefix);
  return { bytes: address.toByteArray(), bits, isKept };
};

const SPECIAL: Readonly<Record<4 | 16, readonly Special[]>> = {
  4: ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'].map((one) => special(one)),
  // An interface's part of a link-local address may be made of its hardware address.
  16: [special('::/8'), special('ff00::/8'), special('fe80::/64', false)],
};

const bitOf = (bytes: ArrayLike<number>, at: number): number =>
  ((bytes[at >> 3] ?? 0) >> (7 - (at & 7))) & 1;

/** Both say the same of the bits that both have. */
function agree(bytes: ArrayLike<number>, length: number, { bytes: of, bits }: Special): boolean {
  for (let at = 0; at < Math.min(length, bits); at += 1) {
    if (bitOf(bytes, at) !== bitOf(of, at)) return false;
  }
  return true;
}

export interface AddressMap {
  /** Of a canonical address. */
  address(canonical: string): string;
  /** `10.0.0.0/8`: bits behind the length stay 0 if all are. */
  prefix(canonical: string, length: number): string;
  /** What has been given so far, by what stands for it. */
  readonly given: ReadonlyMap<string, string>;
}

export function createAddressMap(digest: Digest): AddressMap {
  const digests = new Map<string, Uint8Array>();
  const given = new Map<string, string>();
  const flips = (family: 4 | 16, bytes: readonly number[], at: number): boolean => {
    const isFixed = SPECIAL[family].some(
      (one) => agree(bytes, at, one) && (at < one.bits || one.isKept),
    );
    if (isFixed) return false;
    // One digest decides of all bits of a byte: a tree of 255 nodes, by what comes before.
    const before = `${family}:${bytes.slice(0, at >> 3).join('.')}`;
    let known = digests.get(before);
    if (known === undefined) {
      known = digest(before);
      digests.set(before, known);
    }
    let node = 1;
    for (let bit = at & ~7; bit < at; bit += 1) node = 2 * node + bitOf(bytes, bit);
    return bitOf(known, node) === 1;
  };
  const mapped = (bytes: readonly number[], length: number): number[] => {
    const family = bytes.length === 4 ? 4 : 16;
    const result = [...bytes];
    for (let at = 0; at < length; at += 1) {
      if (flips(family, bytes, at)) result[at >> 3] = (result[at >> 3] ?? 0) ^ (0x80 >> (at & 7));
    }
    return result;
  };
  const textOf = (bytes: number[]): string => {
    const address = ipaddr.fromByteArray(bytes);
    return canonicalAddress(address.toString()) ?? address.toString();
  };
  const address = (canonical: string): string => {
    const known = given.get(canonical);
    if (known !== undefined) return known;
    const bytes = ipaddr.parse(canonical).toByteArray();
    const found = textOf(mapped(bytes, bytes.length * 8));
    given.set(canonical, found);
    return found;
  };
  const prefix = (canonical: string, length: number): string => {
    const bytes = ipaddr.parse(canonical).toByteArray();
    for (let at = length; at < bytes.length * 8; at += 1) {
      if (bitOf(bytes, at) === 1) return `${address(canonical)}/${length}`;
    }
    const found = textOf(mapped(bytes, length));
    if (!given.has(canonical)) given.set(canonical, found);
    return `${found}/${length}`;
  };
  return { address, prefix, given };
}
