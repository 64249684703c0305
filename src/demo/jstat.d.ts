// SPDX-License-Identifier: Apache-2.0
// The part of jstat that is used; the package has no types of its own.
declare module 'jstat' {
  const jstat: {
    readonly chisquare: {
      /** Probability of a value of at most `x` with so many degrees of freedom. */
      cdf(x: number, degreesOfFreedom: number): number;
    };
  };
  export = jstat;
}
