// SPDX-License-Identifier: Apache-2.0
// Pauses between tries: doubling up to a limit, with jitter so that many do not retry in step.

export interface Backoff {
  nextMs(): number;
  /** How many pauses were asked for since the last reset. */
  attempts(): number;
  reset(): void;
}

/** @param random in [0, 1); the pause is between half and all of the doubled value */
export function createBackoff(
  limits: { readonly firstMs: number; readonly maxMs: number },
  random: () => number = Math.random,
): Backoff {
  let attempts = 0;
  return {
    nextMs() {
      const fullMs = Math.min(limits.maxMs, limits.firstMs * 2 ** Math.min(attempts, 30));
      attempts++;
      return fullMs / 2 + (fullMs / 2) * random();
    },
    attempts: () => attempts,
    reset: () => {
      attempts = 0;
    },
  };
}
