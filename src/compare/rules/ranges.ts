// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses as numbers, so that all addresses between two that rules name are one class. IPv4 addresses are
// numbers, IPv6 addresses bigints: both compare with `<`.
import { addressBytes, addressText } from '../../lib/address-bytes.ts';
import { canonicalAddress, familyOf } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';

export type AddressNumber = number | bigint;

/** From `from` up to, but without, `to`. */
export interface Range {
  readonly from: AddressNumber;
  readonly to: AddressNumber;
}

export const EVERY: Readonly<Record<Family, Range>> = {
  IPv4: { from: 0, to: 2 ** 32 },
  IPv6: { from: 0n, to: 1n << 128n },
};

/** @param address canonical */
export function numberOf(address: string): AddressNumber {
  const family = familyOf(address);
  const bytes = addressBytes(address, family);
  if (family === 'IPv6') return BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
  const [a = 0, b = 0, c = 0, d = 0] = bytes;
  return ((a * 256 + b) * 256 + c) * 256 + d;
}

export function textOf(number: AddressNumber): string {
  if (typeof number === 'bigint') {
    return addressText(Buffer.from(number.toString(16).padStart(32, '0'), 'hex'));
  }
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 0xff).join('.');
}

/** @returns so many addresses after it */
export const after = (number: AddressNumber, count: number): AddressNumber =>
  typeof number === 'bigint' ? number + BigInt(count) : number + count;

/** `10.96.0.0/16`, `10.96.0.10`; undefined: it is neither. */
export function rangeOf(text: string): Range | undefined {
  const cut = text.indexOf('/');
  const address = canonicalAddress(cut < 0 ? text : text.slice(0, cut));
  if (address === undefined) return undefined;
  const start = numberOf(address);
  const free = (typeof start === 'bigint' ? 128 : 32) - Number(cut < 0 ? 0 : text.slice(cut + 1));
  if (cut < 0) return { from: start, to: after(start, 1) };
  if (typeof start === 'bigint') {
    const size = 1n << BigInt(free);
    const from = start - (start % size);
    return { from, to: from + size };
  }
  const size = 2 ** free;
  const from = start - (start % size);
  return { from, to: from + size };
}

/** `10.0.0.1-10.0.0.9`, both ends belong to it, or as rangeOf. */
export function spanOf(text: string): Range | undefined {
  const [first = '', last] = text.split('-');
  if (last === undefined) return rangeOf(first);
  const [from, to] = [rangeOf(first), rangeOf(last)];
  return from === undefined || to === undefined ? undefined : { from: from.from, to: to.to };
}

export const contains = ({ from, to }: Range, number: AddressNumber): boolean =>
  from <= number && number < to;

export const isOneAddress = ({ from, to }: Range): boolean => after(from, 1) === to;

/** `10.1.0.0-10.1.255.255`, `10.1.1.5` */
export const rangeText = (range: Range): string =>
  isOneAddress(range) ? textOf(range.from) : `${textOf(range.from)}-${textOf(after(range.to, -1))}`;
