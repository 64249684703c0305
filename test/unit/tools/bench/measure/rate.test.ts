// SPDX-License-Identifier: Apache-2.0
// The rate of changes does not depend on how long each of them takes.
import { expect, test } from 'vitest';
import { atRate } from '../../../../../tools/bench/measure/rate.ts';

/** When each change began, if changes take so long. */
async function beginnings(takesMs: readonly number[], periodMs: number) {
  let nowMs = 1_000;
  const letPass = async (ms: number): Promise<void> => {
    nowMs += ms;
  };
  const begunMs: number[] = [];
  await atRate(
    { count: takesMs.length, periodMs },
    async (number) => {
      begunMs.push(nowMs - 1_000);
      nowMs += takesMs[number] ?? 0;
    },
    { monotonicMs: () => nowMs, letPass },
  );
  return { begunMs, endMs: nowMs - 1_000 };
}

test('one in each period, whatever a change takes of it', async () => {
  const { begunMs, endMs } = await beginnings([0, 7, 19, 1], 20);
  expect(begunMs).toEqual([0, 20, 40, 60]);
  expect(endMs).toBe(80);
});

test('what is late is caught up with', async () => {
  const { begunMs, endMs } = await beginnings([50, 1, 1, 1, 1], 20);
  expect(begunMs).toEqual([0, 50, 51, 60, 80]);
  expect(endMs).toBe(100);
});
