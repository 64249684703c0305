// SPDX-License-Identifier: Apache-2.0
// Pearson's chi-square test of counts against an even distribution.
import jstat from 'jstat';

export interface ChiSquare {
  readonly statistic: number;
  readonly degreesOfFreedom: number;
  /** Probability of a statistic at least this large if the choice is even; 0 below 1e-16. */
  readonly pValue: number;
}

/** Tests counts against equal expected counts. Fewer than two counts, or none at all, are always even. */
export function chiSquareOfEven(counts: readonly number[]): ChiSquare {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const degreesOfFreedom = Math.max(counts.length - 1, 0);
  if (degreesOfFreedom === 0 || total === 0) return { statistic: 0, degreesOfFreedom, pValue: 1 };
  const expected = total / counts.length;
  const statistic = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  const pValue = 1 - jstat.chisquare.cdf(statistic, degreesOfFreedom);
  return { statistic, degreesOfFreedom, pValue };
}
