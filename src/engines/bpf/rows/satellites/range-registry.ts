// SPDX-License-Identifier: Apache-2.0
// Every element of fl_range: put, retired, and deleted after a grace period, because a program that has read a
// traffic rule with source ranges may be about to look for them. Bookkeeping over one hash table.
import { familyOf } from '../../../../lib/ip.ts';
import { encodeRange, encodeRangeKey, type SourceRangeKey } from '../../layout/layout.ts';
import {
  type Ledger,
  type PortRecord,
  type SourceRange,
  withItem,
  without,
} from '../../state/ledger.ts';
import type { RefusedWrite } from '../../state/tables.ts';

/** Service id of the ranges whose addresses are pods. */
export const PODS = 0;

export interface WantedRange extends SourceRangeKey, Pick<SourceRange, 'kind'> {
  /** undefined: nobody, as for ranges of pods. */
  readonly owner: PortRecord | undefined;
}

export const rangeIdOf = (key: Uint8Array): string => key.join();

const keyOf = (range: SourceRangeKey): Uint8Array => encodeRangeKey(range);

export const rangeValueOf = ({ kind, prefix }: Pick<SourceRange, 'kind' | 'prefix'>): Uint8Array =>
  encodeRange(kind, familyOf(prefix));

/** Of the element with this key that programs may rely on. */
export function heldKind(
  { sourceRanges }: Ledger,
  range: SourceRangeKey,
): SourceRange['kind'] | undefined {
  const held = sourceRanges.get(rangeIdOf(keyOf(range)));
  return held?.isRetired === false ? held.kind : undefined;
}

/** True if programs may rely on it. */
export const isHeld = (ledger: Ledger, range: WantedRange): boolean =>
  heldKind(ledger, range) === range.kind;

/** @returns what the kernel refused, by the index in `wanted`; the others are held now */
export function putRanges(
  ledger: Ledger,
  wanted: readonly WantedRange[],
): ReadonlyMap<number, RefusedWrite> {
  const fresh = [...wanted.keys()].filter((index) => !revive(ledger, wanted[index]));
  const missing = fresh.flatMap((index) => wanted[index] ?? []);
  const refused = ledger.tables.sourceRange.put(missing.map(keyOf), missing.map(rangeValueOf));
  const refusedAt = new Map(refused.map((refusal) => [fresh[refusal.index] ?? -1, refusal]));
  for (const [at, range] of missing.entries()) {
    if (!refusedAt.has(fresh[at] ?? -1)) addRange(ledger, range);
  }
  return refusedAt;
}

/** Registers a range that is in the kernel, perhaps as one of another kind before. */
export function addRange(ledger: Ledger, added: WantedRange): SourceRange {
  const { serviceId, prefix, owner, kind } = added;
  const id = rangeIdOf(keyOf(added));
  const known = ledger.sourceRanges.get(id);
  if (known !== undefined) return renew(ledger, known, kind);
  const range: SourceRange = { serviceId, prefix, owner, kind, isRetired: false };
  ledger.sourceRanges.set(id, range);
  take(ledger, range);
  return range;
}

function renew(ledger: Ledger, known: SourceRange, kind: SourceRange['kind']): SourceRange {
  if (known.isRetired) take(ledger, known);
  known.isRetired = false;
  known.kind = kind;
  return known;
}

/** A retired range that is wanted again is still in the kernel. */
function revive(ledger: Ledger, wanted: WantedRange | undefined): boolean {
  const known = wanted && ledger.sourceRanges.get(rangeIdOf(keyOf(wanted)));
  if (known === undefined || known.kind !== wanted?.kind) return false;
  renew(ledger, known, known.kind);
  return true;
}

function take(ledger: Ledger, range: SourceRange): void {
  if (range.owner !== undefined) range.owner.ranges = withItem(range.owner.ranges, range);
  else if (range.serviceId === PODS) ledger.podRanges = withItem(ledger.podRanges, range);
}

/** To be deleted by deleteRetired(), unless it is wanted again before. */
export function retireRange(ledger: Ledger, range: SourceRange): void {
  if (range.isRetired) return;
  range.isRetired = true;
  giveUp(ledger, range);
  ledger.retired.ranges.push(range);
}

function giveUp(ledger: Ledger, range: SourceRange): void {
  if (range.owner !== undefined) range.owner.ranges = without(range.owner.ranges, range);
  else ledger.podRanges = without(ledger.podRanges, range);
}

/** Notes that the kernel no longer has it. */
export function forgetRange(ledger: Ledger, range: SourceRange): void {
  ledger.sourceRanges.delete(rangeIdOf(keyOf(range)));
  giveUp(ledger, range);
}

/** Undoes a put that no frontend relies on yet, at once. */
export function takeBack(ledger: Ledger, put: SourceRangeKey): void {
  const range = ledger.sourceRanges.get(rangeIdOf(keyOf(put)));
  if (range === undefined) return;
  if (ledger.tables.sourceRange.delete([keyOf(range)]).length === 0) forgetRange(ledger, range);
  else retireRange(ledger, range);
}

/**
 * After a grace period; those that deny last, so that nobody is admitted in between. A range that the kernel refuses to delete is left to the audit, which deletes what the
 * registry does not have.
 * @returns service ids that must not be reused, because ranges of theirs are left
 */
export function deleteRetired(
  ledger: Ledger,
  retired: readonly SourceRange[],
): ReadonlySet<number> {
  const unwanted = retired
    .filter(({ isRetired }) => isRetired)
    .sort((a, b) => Number(a.kind === 'denied') - Number(b.kind === 'denied'));
  const refused = ledger.tables.sourceRange.delete(unwanted.map(keyOf));
  for (const range of unwanted) forgetRange(ledger, range);
  return new Set(refused.flatMap(({ index }) => unwanted[index]?.serviceId ?? []));
}
