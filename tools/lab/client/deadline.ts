// SPDX-License-Identifier: Apache-2.0
// How long a client waits for an answer, on a machine that may stop it for longer than that. Runs inside client pods.

/** A connection is made in one round of the event loop, its answer read in the next one, and an end in a third. */
const ROUNDS = 3;

/**
 * Calls `late` after `ms`, once what has arrived by then is read: timers come before sockets in the event loop, so
 * a client that was stopped would else report a timeout with the answer in its socket. Returns what cancels it.
 */
export function startDeadline(ms: number, late: () => void): () => void {
  let isCancelled = false;
  const read = (rounds: number): void => {
    if (isCancelled) return;
    if (rounds === 0) late();
    else setImmediate(read, rounds - 1);
  };
  const timer = setTimeout(read, ms, ROUNDS);
  return () => {
    isCancelled = true;
    clearTimeout(timer);
  };
}
