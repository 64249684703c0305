// SPDX-License-Identifier: Apache-2.0
// Waiting for a condition with a deadline; tests never sleep for a fixed time.

export interface Patience {
  readonly timeoutMs?: number;
  /** What is awaited, for the error. */
  readonly what: string;
}

const POLL_INTERVAL_MS = 10;

/** Asks until the answer is neither undefined nor false, and returns it. Throws with the last answer seen. */
export async function until<T>(
  ask: () => T | undefined | false | Promise<T | undefined | false>,
  { what, timeoutMs = 5_000 }: Patience,
): Promise<T> {
  const deadlineMs = performance.now() + timeoutMs;
  let lastError: unknown;
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
    } catch (error) {
      lastError = error;
    }
    if (performance.now() > deadlineMs) {
      throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause: lastError });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
}

/** The same for an assertion: repeats it until it holds, and fails with its own last failure. */
export async function untilHolds(
  assertion: () => void | Promise<void>,
  timeoutMs = 5_000,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    try {
      await assertion();
      return;
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
}
