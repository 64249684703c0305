// SPDX-License-Identifier: Apache-2.0
// Whether a text still has one of the names or addresses that were replaced. Pure.
import { canonicalAddress } from '../../lib/ip.ts';
import type { AddressMap } from './addresses.ts';
import type { Names } from './names.ts';

const WORD = /[A-Za-z0-9][A-Za-z0-9._-]*/g;
const ADDRESS = /[0-9A-Fa-f]*(?:[.:][0-9A-Fa-f]*){2,}/g;

export function createLeakCheck(names: Names, { given }: AddressMap): (text: string) => boolean {
  const listed = new Set(names.inTexts());
  const standIns = new Set(given.values());
  const isName = (word: string): boolean =>
    listed.has(word) || word.split(/[._-]/).some((part) => listed.has(part));
  const isOriginal = (text: string): boolean => {
    const address = canonicalAddress(text) ?? canonicalAddress(text.replaceAll('.', ':'));
    return address !== undefined && given.has(address) && !standIns.has(address);
  };
  return (text) =>
    (text.match(WORD) ?? []).some(isName) || (text.match(ADDRESS) ?? []).some(isOriginal);
}
