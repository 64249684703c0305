// SPDX-License-Identifier: Apache-2.0
// Pauses between tries: a ceiling that doubles up to a limit, with jitter so that many do not retry at the same time
// ("Exponential Backoff And Jitter", AWS architecture blog).

export interface BackoffLimits {
  readonly firstMs: number;
  readonly maxMs: number;
  /** `full`: between 0 and the ceiling · `equal`: between half of it and all of it. */
  readonly jitter: 'full' | 'equal';
  /** No pause is shorter. */
  readonly leastMs?: number;
}

export interface Backoff {
  /** @param leastMs of this one pause: what a server asked for, say */
  nextMs(leastMs?: number): number;
  /** How many pauses were asked for since the last reset. */
  attempts(): number;
  reset(): void;
}

/** Past it the ceiling has reached every limit, and 2 ** n stays finite. */
const MAX_DOUBLINGS = 30;

/** @param random in [0, 1) */
export function createBackoff(limits: BackoffLimits, random: () => number): Backoff {
  const { firstMs, maxMs, jitter } = limits;
  let attempts = 0;
  return {
    nextMs(leastMs = 0) {
      const ceilingMs = Math.min(maxMs, firstMs * 2 ** Math.min(attempts, MAX_DOUBLINGS));
      attempts++;
      const fixedMs = jitter === 'equal' ? ceilingMs / 2 : 0;
      const ownMs = fixedMs + (ceilingMs - fixedMs) * random();
      return Math.max(ownMs, limits.leastMs ?? 0, leastMs);
    },
    attempts: () => attempts,
    reset: () => {
      attempts = 0;
    },
  };
}
