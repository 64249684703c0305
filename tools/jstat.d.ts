// SPDX-License-Identifier: Apache-2.0
// The part of jstat that is used; the package has no types of its own.
declare module 'jstat' {
  const jstat: {
    readonly chisquare: {
      /** Probability of a value of at most `x` with so many degrees of freedom. */
      cdf(x: number, degreesOfFreedom: number): number;
    };
    readonly binomial: {
      /** Probability of at most `k` successes in `n` trials with a chance of `p` each. */
      cdf(k: number, n: number, p: number): number;
    };
  };
  export = jstat;
}
