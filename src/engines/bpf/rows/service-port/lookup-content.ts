// SPDX-License-Identifier: Apache-2.0
// The lookup table of a set: what it is made of tells whether the kernel has it already, so that it is made only if not.
import type { LookupRecord, SetContent, SetRecord } from '../../state/ledger.ts';

/** A set that a port needs. */
export interface WantedSet extends Omit<SetContent, 'lookup'> {
  readonly lookup?: WantedLookup;
  /** Connections of this one are to go on. */
  readonly former?: SetRecord | undefined;
}

export interface WantedLookup {
  readonly entries: number;
  readonly shares: string;
  /** Backend ids by entry, until the next call of any; takes long if the table has not been made before. */
  readonly ids: () => Uint32Array;
}

/** Weights as text; '' if all are equal. */
export const sharesOf = (weights: readonly number[]): string =>
  weights.every((weight) => weight === weights[0]) ? '' : weights.join();

/** Of ids in their order. */
export function digestOf(ids: Uint32Array): number {
  let digest = 0x811c9dc5;
  for (const id of ids) {
    digest = Math.imul(digest ^ id, 0x01000193);
    digest ^= digest >>> 15;
  }
  return digest >>> 0;
}

/** The members, which are not compared here, are the same. */
export function isSameLookup(
  held: LookupRecord | undefined,
  wanted: WantedLookup | undefined,
): boolean {
  if (held === undefined || wanted === undefined) return held === wanted;
  if (held.entries !== wanted.entries) return false;
  if (held.shares !== undefined) return held.shares === wanted.shares;
  if (held.digest !== digestOf(wanted.ids())) return false;
  held.shares = wanted.shares;
  return true;
}
