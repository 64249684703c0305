// SPDX-License-Identifier: Apache-2.0
// Clocks, timers, random numbers, and work in slices.
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

/**
 * Runs the steps to their end, in slices of so many milliseconds between which the event loop runs; the last slice goes on
 * with the caller. A single step is never interrupted.
 * @param isOver asked after each turn of the event loop; true ends the run
 * @returns what the steps return; undefined if it was over before
 */
export async function inSlices<T>(
  steps: Iterator<unknown, T>,
  sliceMs: number,
  isOver: () => boolean = () => false,
): Promise<T | undefined> {
  let startedAt = performance.now();
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    if (performance.now() - startedAt < sliceMs) continue;
    await new Promise(setImmediate);
    if (isOver()) return undefined;
    startedAt = performance.now();
  }
}
