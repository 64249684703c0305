// SPDX-License-Identifier: Apache-2.0
// Time and chance as a value, so that every wait of this folder can be driven by a test.

export interface Clock {
  /** Monotonic; only differences mean anything. */
  nowMs(): number;
  /** Runs `action` once after the delay; the result cancels it. */
  after(delayMs: number, action: () => void): () => void;
  /** In [0, 1). */
  random(): number;
}

export const systemClock: Clock = {
  nowMs: () => performance.now(),
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
