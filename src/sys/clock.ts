// SPDX-License-Identifier: Apache-2.0
// Clocks, timers and random numbers.
import type { Clock } from '../lib/clock.ts';

export const SYSTEM_CLOCK: Clock = {
  nowMs: Date.now,
  monotonicMs: () => performance.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    return () => clearTimeout(timer);
  },
  random: Math.random,
};

/** Resolves after the delay, or at once when the signal is aborted. Never rejects. */
export function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted || delayMs <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    const finish = (): void => {
      cancel();
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const cancel = clock.after(delayMs, finish);
    signal.addEventListener('abort', finish);
  });
}
