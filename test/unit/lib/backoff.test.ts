// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { type BackoffLimits, createBackoff } from '../../../src/lib/backoff.ts';

const FULL: BackoffLimits = { firstMs: 800, maxMs: 30_000, leastMs: 100, jitter: 'full' };
const EQUAL: BackoffLimits = { firstMs: 100, maxMs: 1_000, jitter: 'equal' };

test.each<[string, BackoffLimits, number, readonly number[]]>([
  ['full, at most', FULL, 1, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]],
  ['full, in the middle', FULL, 0.25, [200, 400, 800]],
  ['full, never less than the least', FULL, 0, [100, 100]],
  ['equal, at most', EQUAL, 1, [100, 200, 400, 800, 1_000, 1_000]],
  ['equal, at least half', EQUAL, 0, [50, 100, 200, 400, 500, 500]],
])('%s', (_name, limits, chance, pauses) => {
  const backoff = createBackoff(limits, () => chance);
  expect(pauses.map(() => backoff.nextMs())).toEqual(pauses);
  expect(backoff.attempts()).toBe(pauses.length);
  backoff.reset();
  expect([backoff.attempts(), backoff.nextMs()]).toEqual([0, pauses[0]]);
});

test('a pause that somebody asked for is never shorter', () => {
  const backoff = createBackoff(FULL, () => 0.5);
  expect([backoff.nextMs(9_000), backoff.nextMs(1)]).toEqual([9_000, 800]);
});

test('a thousand failures do not overflow', () => {
  const backoff = createBackoff(EQUAL, () => 1);
  for (let tries = 0; tries < 2_000; tries += 1) backoff.nextMs();
  expect(backoff.nextMs()).toBe(1_000);
});
