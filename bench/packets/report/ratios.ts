// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the table. Pure.

import { percentile } from '../../../tools/bench/lib/quantiles.ts';
import type { Sample } from '../../../tools/lab/columns/traffic.ts';

const NS_PER_SECOND = 1e9;

/** Units in a second of CPU time: what one core does if it does nothing else. */
export function perCoreSecond({ units, cpuNs }: Sample): number {
  return cpuNs > 0 ? (units * NS_PER_SECOND) / cpuNs : Number.NaN;
}

export function medianRate(samples: readonly Sample[]): number {
  return percentile(samples.map(perCoreSecond), 0.5);
}

export interface Ratio {
  readonly median: number;
  /** A quarter of all rounds is below the first, a quarter above the second. */
  readonly quartiles: readonly [number, number];
}

/**
 * Of each round to the same round of `base`: what slows a whole round does not count. Nor does a round in which nothing
 * arrived, which shareOf() tells of.
 */
export function ratioTo(base: readonly Sample[], samples: readonly Sample[]): Ratio {
  const rounds = Math.min(base.length, samples.length);
  const ratios = Array.from(
    { length: rounds },
    (_, round) => perCoreSecond(samples[round]!) / perCoreSecond(base[round]!),
  ).filter((ratio) => !Number.isNaN(ratio));
  return {
    median: percentile(ratios, 0.5),
    quartiles: [percentile(ratios, 0.25), percentile(ratios, 0.75)],
  };
}

/** Of what was sent. */
export function shareOf(what: 'lost' | 'resent', samples: readonly Sample[]): number {
  const sum = (of: (sample: Sample) => number): number =>
    samples.reduce((total, sample) => total + of(sample), 0);
  const count = sum((sample) => sample[what]);
  return count === 0 ? 0 : count / sum(({ lost, units }) => lost + units);
}
