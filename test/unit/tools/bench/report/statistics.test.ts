// SPDX-License-Identifier: Apache-2.0
// Medians, intervals and verdicts: against tables of the sign test, and against samples whose median is known.
import { describe, expect, test } from 'vitest';
import { medianOf } from '../../../../../tools/bench/lib/quantiles.ts';
import { compare, estimateOf } from '../../../../../tools/bench/report/statistics.ts';

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

test.each([
  { values: [3], median: 3 },
  { values: [5, 1, 3], median: 3 },
  { values: [4, 1, 3, 2], median: 2.5 },
])('the median of $values is $median', ({ values, median }) => {
  expect(medianOf(values)).toBe(median);
});

test('nothing has no median and no estimate', () => {
  expect(() => medianOf([])).toThrow(RangeError);
  expect(estimateOf([])).toBeUndefined();
});

// The ranks are those of the tables of the sign test; the confidence is 1 - 2 P(X <= rank - 1), X ~ Bin(n, 1/2).
test.each([
  { count: 1, low: 1, high: 1, confidence: 0 },
  { count: 3, low: 1, high: 3, confidence: 0.75 },
  { count: 5, low: 1, high: 5, confidence: 0.9375 },
  { count: 6, low: 1, high: 6, confidence: 0.96875 },
  { count: 8, low: 1, high: 8, confidence: 0.9921875 },
  { count: 9, low: 2, high: 8, confidence: 0.9609375 },
  { count: 15, low: 4, high: 12, confidence: 0.96484375 },
  { count: 20, low: 6, high: 15, confidence: 0.958610535 },
])('$count rounds: from value $low to value $high', ({ count, low, high, confidence }) => {
  const estimate = estimateOf(upTo(count).reverse());
  expect(estimate).toMatchObject({ low, high, count });
  expect(estimate?.confidence).toBeCloseTo(confidence, 6);
});

test('the interval holds the true median as often as it says, whatever the distribution', () => {
  let state = 7;
  const random = (): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  const runs = 2_000;
  // Exponential: far from symmetric. Its median is ln 2.
  const hits = upTo(runs).filter(() => {
    const { low, high } = estimateOf(upTo(9).map(() => -Math.log(random())))!;
    return low <= Math.LN2 && high >= Math.LN2;
  });
  expect(hits.length / runs).toBeGreaterThan(0.945);
  expect(hits.length / runs).toBeLessThan(0.975);
});

describe('compare', () => {
  const six = [10, 12, 11, 30, 10, 11];

  test('takes the ratio of each round, so that what slows a round does not count', () => {
    const slowed = six.map((value, round) => value * 2 * (1 + round / 1_000));
    const found = compare(slowed, six);
    expect(found?.verdict).toBe('differs');
    expect(found?.ratio.low).toBeCloseTo(2, 5);
    expect(found?.ratio.high).toBeCloseTo(2.01, 5);
  });

  test('calls noise what is now above and now below', () => {
    const shifted = six.map((value, round) => value * (round % 2 === 0 ? 1.3 : 0.9));
    expect(compare(shifted, six)?.verdict).toBe('noise');
  });

  test('finds no difference in five rounds, however large', () => {
    const five = six.slice(0, 5);
    expect(
      compare(
        five.map((value) => 100 * value),
        five,
      )?.verdict,
    ).toBe('few');
  });

  test('leaves out rounds in which one of the two has no value', () => {
    expect(compare([2, null, 4], [1, 1, null])?.ratio).toMatchObject({ count: 1, median: 2 });
    expect(compare([null], [1])).toBeUndefined();
    expect(compare([1], [0])).toBeUndefined();
  });
});
