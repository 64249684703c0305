// SPDX-License-Identifier: Apache-2.0
// When a search begins that was asked for as soon as the one before had ended.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withCooldown } from '../../../../../../src/engines/bpf/kernel/stale-sockets/finder.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** How long after the end of the first search, which took `ms`, the second one begins. */
async function restAfter(ms: number, fails = false): Promise<number> {
  const startsMs: number[] = [];
  const search = withCooldown(async () => {
    startsMs.push(performance.now());
    await pause(ms);
    if (fails) throw new Error('refused');
  });
  const twice = (async () => {
    await search({}).catch(() => undefined);
    await search({}).catch(() => undefined);
  })();
  await vi.runAllTimersAsync();
  await twice;
  const [first = 0, second = 0] = startsMs;
  return Math.round(second - first - ms);
}

test.each([
  [0, 0],
  [10, 40],
  [200, 800],
  [468, 1_000],
])('after %d ms: %d ms', async (ms, restMs) => {
  expect(await restAfter(ms)).toBe(restMs);
});

test('after one that failed, too', async () => {
  expect(await restAfter(10, true)).toBe(40);
});

test('what was found, and asked for, passes', async () => {
  const search = withCooldown(async (word: string) => `${word} found`);
  expect(await search('x')).toBe('x found');
});
