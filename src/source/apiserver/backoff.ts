// SPDX-License-Identifier: Apache-2.0
// Pauses between tries: doubling ceiling with full jitter, so that nodes that lost the same server do not
// return in step ("Exponential Backoff And Jitter", AWS architecture blog; limits as client-go's).
import { LIMITS } from './limits.ts';

export interface Backoff {
  /** @param retryAfterMs what the server asked for; the pause is never shorter than it */
  nextMs(retryAfterMs?: number): number;
  reset(): void;
}

export function createBackoff(random: () => number): Backoff {
  let attempts = 0;
  return {
    nextMs(retryAfterMs = 0) {
      const ceilingMs = Math.min(LIMITS.backoffMaxMs, LIMITS.backoffFirstMs * 2 ** attempts);
      attempts = Math.min(attempts + 1, 16);
      const ownMs = Math.max(LIMITS.backoffLeastMs, ceilingMs * random());
      return Math.max(ownMs, Math.min(retryAfterMs, LIMITS.retryAfterMaxMs));
    },
    reset() {
      attempts = 0;
    },
  };
}
