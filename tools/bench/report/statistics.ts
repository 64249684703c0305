// SPDX-License-Identifier: Apache-2.0
// Medians, their confidence intervals, and whether a difference is more than noise. No assumption is made about how
// values are distributed: the interval is between two of the values themselves (the sign test, inverted), so few
// rounds cannot give 95 % whatever they measure. Pure.
import jstat from 'jstat';
import { at, medianOf } from '../lib/quantiles.ts';
import type { Series } from './types.ts';

export interface Estimate {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  /** Probability that such an interval holds the true median. At least 0.95 from six values on. */
  readonly confidence: number;
  readonly count: number;
}

const CONFIDENCE = 0.95;

/** Undefined without values. */
export function estimateOf(values: readonly number[]): Estimate | undefined {
  const count = values.length;
  if (count === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  const outside = excluded(count);
  return {
    median: medianOf(sorted),
    low: at(sorted, outside),
    high: at(sorted, count - 1 - outside),
    confidence: coverage(outside, count),
    count,
  };
}

/** Probability that the median is between the values that have so many others below and above. */
const coverage = (outside: number, count: number): number =>
  1 - 2 * jstat.binomial.cdf(outside, count, 0.5);

/** How many values at either end the interval leaves out. */
function excluded(count: number): number {
  let outside = 0;
  while (coverage(outside + 1, count) >= CONFIDENCE) outside += 1;
  return outside;
}

/**
 * `differs`: the interval of the ratio excludes 1. `noise`: it does not. `few`: it does, but there are too few rounds
 * for a confidence of 95 %.
 */
export type Verdict = 'differs' | 'noise' | 'few';

export interface Comparison {
  readonly ratio: Estimate;
  readonly verdict: Verdict;
}

/** Round by round: what slows a whole round does not count. Undefined if no round has both. */
export function compare(series: Series, reference: Series): Comparison | undefined {
  const ratios = series.flatMap((value, round) => {
    const base = reference[round];
    return value === null || base === null || base === undefined || base <= 0 ? [] : [value / base];
  });
  const ratio = estimateOf(ratios);
  return ratio && { ratio, verdict: verdictOf(ratio) };
}

function verdictOf({ low, high, confidence }: Estimate): Verdict {
  if (low <= 1 && high >= 1) return 'noise';
  return confidence >= CONFIDENCE ? 'differs' : 'few';
}

export const valuesOf = (series: Series): readonly number[] =>
  series.filter((value) => value !== null);
