// SPDX-License-Identifier: Apache-2.0
// Waiting for a condition with a deadline; tests never sleep for a fixed time.
import { setTimeout as delay } from 'node:timers/promises';

export interface Wait {
  readonly timeoutMs?: number;
  /** The longest time between two questions: more where what is awaited takes long, for less CPU. */
  readonly lastPollMs?: number;
  /** Names the condition in the error. */
  readonly what: string;
}

/**
 * What happens at once does so within this, on a machine that has much other work as well. What it is told apart from is longer: the
 * ten seconds of a container that is stopped, the two minutes of a connection that nobody answers. Speed is measured in bench/.
 */
export const AT_ONCE_MS = 8_000;

/** Long enough for a machine with much other work, where an agent starts in half a minute: it costs time only where a test fails. */
export const TIMEOUT_MS = 60_000;
/** The interval grows, so that short waits end promptly and long ones cost little CPU. */
const FIRST_POLL_MS = 1;
const LAST_POLL_MS = 25;

/**
 * Asks until the answer is neither undefined nor false, and returns it. A question that throws counts as
 * "not yet"; the error of the last one is the cause of the failure.
 */
export async function until<T>(
  ask: () => T | undefined | false | Promise<T | undefined | false>,
  wait: Wait | string,
): Promise<T> {
  const asked: Wait = typeof wait === 'string' ? { what: wait } : wait;
  const { what, timeoutMs = TIMEOUT_MS, lastPollMs = LAST_POLL_MS } = asked;
  const deadlineMs = performance.now() + timeoutMs;
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(2 * pollMs, lastPollMs)) {
    let cause: unknown;
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadlineMs) {
      throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
    }
    await delay(pollMs);
  }
}

/** The same for an assertion: repeats it until it holds, or throws its last failure. */
export async function untilHolds(
  assertion: () => void | Promise<void>,
  timeoutMs = TIMEOUT_MS,
  lastPollMs = LAST_POLL_MS,
): Promise<void> {
  let last: unknown;
  const holds = async (): Promise<boolean> => {
    try {
      await assertion();
      return true;
    } catch (error) {
      last = error;
      return false;
    }
  };
  await until(holds, { what: 'an assertion to hold', timeoutMs, lastPollMs }).catch(() => {
    throw last;
  });
}
