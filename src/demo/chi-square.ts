// SPDX-License-Identifier: Apache-2.0
// Pearson's chi-square test: how likely is it that counts this uneven come from an even choice?
// Pure. The incomplete gamma function is computed as in Numerical Recipes, 3rd edition, section 6.2.

export interface ChiSquare {
  readonly statistic: number;
  readonly degreesOfFreedom: number;
  /** Probability of a statistic at least this large if the choice is even. */
  readonly pValue: number;
}

/** Tests counts against equal expected counts. Fewer than two counts, or none at all, are always even. */
export function chiSquareOfEven(counts: readonly number[]): ChiSquare {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const degreesOfFreedom = Math.max(counts.length - 1, 0);
  if (degreesOfFreedom === 0 || total === 0) return { statistic: 0, degreesOfFreedom, pValue: 1 };
  const expected = total / counts.length;
  const statistic = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  return { statistic, degreesOfFreedom, pValue: upperGamma(degreesOfFreedom / 2, statistic / 2) };
}

const EPSILON = 1e-14;
const MAX_STEPS = 1000;

/** Q(a, x), the regularized upper incomplete gamma function. */
function upperGamma(a: number, x: number): number {
  if (x <= 0) return 1;
  return x < a + 1 ? 1 - lowerSeries(a, x) : upperFraction(a, x);
}

/** Converges fast for x < a + 1. */
function lowerSeries(a: number, x: number): number {
  let term = 1 / a;
  let sum = term;
  for (let n = 1; n < MAX_STEPS && Math.abs(term) > Math.abs(sum) * EPSILON; n++) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * Math.exp(-x + a * Math.log(x) - logGamma(a));
}

/** Lentz's continued fraction, for x >= a + 1; keeps its digits where the result is tiny. */
function upperFraction(a: number, x: number): number {
  let b = x + 1 - a;
  let c = Number.MAX_VALUE;
  let d = 1 / b;
  let h = d;
  for (let n = 1; n < MAX_STEPS; n++) {
    const an = -n * (n - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    h *= d * c;
    if (Math.abs(d * c - 1) < EPSILON) break;
  }
  return h * Math.exp(-x + a * Math.log(x) - logGamma(a));
}

/** Lanczos' approximation with g = 5, good to 2e-10. */
function logGamma(x: number): number {
  const coefficients = [
    76.18009172947146, -86.50532032941678, 24.01409824083091, -1.231739572450155,
    0.1208650973866179e-2, -0.5395239384953e-5,
  ];
  const series = coefficients.reduce((sum, c, i) => sum + c / (x + 1 + i), 1.000000000190015);
  const shifted = x + 5.5;
  return (x + 0.5) * Math.log(shifted) - shifted + Math.log((2.5066282746310007 * series) / x);
}
