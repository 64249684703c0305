// SPDX-License-Identifier: Apache-2.0
// Values in the middle of a list of numbers, and elsewhere in it. Pure.

/** Between two values if their number is even. Throws without values. */
export function medianOf(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('median of nothing');
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (at(sorted, Math.floor(middle)) + at(sorted, Math.ceil(middle))) / 2;
}

/** Nearest rank: the smallest value that at least this share of all values is below or equal to. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return at(sorted, Math.max(1, Math.ceil(share * sorted.length)) - 1);
}

/** Of sorted values; NaN outside. */
export const at = (sorted: readonly number[], index: number): number => sorted[index] ?? Number.NaN;
