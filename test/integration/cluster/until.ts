// SPDX-License-Identifier: Apache-2.0
// Waiting for a condition with a deadline: the only way anything here waits.
import { setTimeout as delay } from 'node:timers/promises';

const ROUND_MS = 50;

/**
 * Asks until the answer is neither undefined nor false, and returns it. A question that throws counts as
 * "not yet"; its last error is the cause of the failure when `timeoutMs` have passed.
 */
export async function until<T>(
  what: string,
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 15_000,
): Promise<T> {
  const deadlineMs = Date.now() + timeoutMs;
  let cause: unknown;
  do {
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await delay(ROUND_MS);
  } while (Date.now() < deadlineMs);
  throw new Error(`waited ${timeoutMs} ms in vain: ${what}`, { cause });
}
