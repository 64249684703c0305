// SPDX-License-Identifier: Apache-2.0
// Two threads that begin each round at one moment. Plain JavaScript, for a worker too.

/** Some ten microseconds: who has to wait longer, because the other one has no CPU, leaves its own. */
const LOOKS = 2_000;
const LEFT_MS = 1;

/**
 * Waits for the other thread. Of `shared`, [0] counts how often either has come, and [1] is how many rounds there are: who
 * makes it less must call this once more.
 * @returns whether this round is one
 */
export function meet(shared, round) {
  Atomics.add(shared, 0, 1);
  Atomics.notify(shared, 0);
  for (let looks = 0; ; looks += 1) {
    const met = Atomics.load(shared, 0);
    if (met >= 2 * (round + 1)) return round < Atomics.load(shared, 1);
    if (looks > LOOKS) Atomics.wait(shared, 0, met, LEFT_MS);
  }
}
