// SPDX-License-Identifier: Apache-2.0
// The test statistic against tables printed in statistics books, and the verdict built on it.
import { expect, test } from 'vitest';
import { chiSquareOfEven } from '../../../../tools/demo/chi-square.ts';
import { judgeDistribution } from '../../../../tools/demo/distribution.ts';

/** Counts of two values whose statistic is `(a - b)^2 / (a + b)`. */
test.each([
  {
    name: 'the 5 % point of 1 degree of freedom',
    counts: [5098, 4902],
    statistic: 3.8416,
    p: 0.05,
  },
  {
    name: 'the 1e-4 point of 1 degree of freedom',
    counts: [50973, 49027],
    statistic: 37.87,
    p: 7.6e-10,
  },
  { name: 'an even count', counts: [100, 100, 100], statistic: 0, p: 1 },
  // 2 degrees of freedom: p = exp(-x / 2) exactly.
  { name: '2 degrees of freedom', counts: [120, 100, 80], statistic: 8, p: Math.exp(-4) },
  { name: '2 degrees, far out', counts: [140, 100, 60], statistic: 32, p: Math.exp(-16) },
  // 4 degrees of freedom: p = exp(-x / 2) (1 + x / 2) exactly.
  {
    name: '4 degrees of freedom',
    counts: [620, 580, 600, 640, 560],
    statistic: 20 / 3,
    p: Math.exp(-10 / 3) * (1 + 10 / 3),
  },
  { name: 'a single backend', counts: [300], statistic: 0, p: 1 },
  { name: 'no answers at all', counts: [0, 0], statistic: 0, p: 1 },
])('$name', ({ counts, statistic, p }) => {
  const result = chiSquareOfEven(counts);
  expect(result.statistic).toBeCloseTo(statistic, 2);
  expect(result.pValue / p).toBeCloseTo(1, 1);
});

test('a probability below the precision is 0', () => {
  expect(chiSquareOfEven([200, 100, 0]).pValue).toBe(0);
});

const backends = ['a', 'b', 'c'].map((pod, index) => ({ pod, address: `10.1.1.${index}:80` }));

function judge(hits: Record<string, number>, failures: Record<string, number> = {}) {
  return judgeDistribution({ connections: 0, hits, failures, elapsedMs: 1 }, backends);
}

test('an ordinary sample is even, each row with its band', () => {
  const { rows, isEven } = judge({ a: 1010, b: 990, c: 1000 });
  expect(isEven).toBe(true);
  expect(rows[0]).toMatchObject({ hits: 1010, expectedHits: 1000, isInside: true });
  expect(rows[0]?.threeSigmaHits).toBeCloseTo(77.46, 2);
});

test('a row outside 3 sigma is marked but does not decide the verdict', () => {
  const { rows, isEven } = judge({ a: 1085, b: 955, c: 960 });
  expect(rows.map(({ isInside }) => isInside)).toEqual([false, true, true]);
  expect(isEven).toBe(true);
});

test('an improbable distribution is not even', () => {
  expect(judge({ a: 1300, b: 850, c: 850 }).isEven).toBe(false);
  expect(judge({ a: 1500, b: 1500 }).isEven).toBe(false);
});

test('a failed connection, an unknown answer and no answer are never even', () => {
  expect(judge({ a: 10, b: 10, c: 10 }, { ECONNREFUSED: 1 }).isEven).toBe(false);
  const strange = judge({ a: 10, b: 10, c: 10, d: 1 });
  expect(strange).toMatchObject({ isEven: false, unknownServers: ['d'] });
  expect(judge({}).isEven).toBe(false);
});
