// SPDX-License-Identifier: Apache-2.0
// Random tests run the same each time, from a seed that a failure prints.
import fc from 'fast-check';
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** FAIRLEAD_SEED selects other histories, or repeats those of a failure. */
export const SEED = Number(process.env['FAIRLEAD_SEED'] ?? 1);

/** How often: less in `npm test`, whose stages a person waits for, than in `npm run test:nightly`. */
export const atNight = (byDay: number, byNight: number): number =>
  process.env['FAIRLEAD_NIGHTLY'] === '1' ? byNight : byDay;

/** The time-out of a test whose number of cases the environment may set: it hangs rarely, and is long on purpose. */
export const ANY_NUMBER_MS = 5_400_000;

/** Numbers in [0, 1), the same for the same seed: for a million packets, where a property would take too long. */
export function randomOf(seed: number): () => number {
  const generator = xoroshiro128plus(seed);
  return () => uniformFloat64(generator);
}

/**
 * For properties whose runs share a kernel, an API server or a planner: a failure ends them, because a
 * shrunk case would meet what the failed one left behind.
 */
export const repeatable = (
  numRuns: number,
): Pick<fc.Parameters, 'seed' | 'numRuns' | 'endOnFailure' | 'unbiased'> => ({
  ...{ seed: SEED, numRuns },
  ...{ endOnFailure: true, unbiased: true },
});

/** True in this share of all cases. */
export const chance = (percent: number): fc.Arbitrary<boolean> =>
  fc.oneof(
    { weight: percent, arbitrary: fc.constant(true) },
    { weight: 100 - percent, arbitrary: fc.constant(false) },
  );

/** One of these; write a value twice and it is twice as likely. */
export const some = <const T>(...values: readonly T[]): fc.Arbitrary<T> =>
  fc.constantFrom(...values);

/** From 0 to 1, evenly: of doubles, fast-check makes as many below 1e-100 as above. */
export const fraction: fc.Arbitrary<number> = fc
  .integer({ min: 0, max: 1_000 })
  .map((n) => n / 1_000);

/** For each of `count` Services, the pods behind it: at least one, told by their index. */
export const podSets = (count: number, pods: number): fc.Arbitrary<readonly number[][]> => {
  const indices = Array.from({ length: pods }, (_, index) => index);
  return fc.array(fc.subarray(indices, { minLength: 1 }), { minLength: count, maxLength: count });
};
