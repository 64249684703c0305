// SPDX-License-Identifier: Apache-2.0
// Statistics of a list of numbers.

/** Nearest rank: the smallest value that at least this share of all values is below or equal to. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const rank = Math.max(1, Math.ceil(share * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}

/** Of an even number the mean of the two in the middle: of two rounds neither is chosen. */
export const middleOf = (values: readonly number[]): number =>
  (percentile(values, 0.5) -
    percentile(
      values.map((value) => -value),
      0.5,
    )) /
  2;
