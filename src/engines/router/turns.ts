// SPDX-License-Identifier: Apache-2.0
// Serializes asynchronous work: one task at a time, in the order of the calls.

export type Turns = <T>(work: () => Promise<T>) => Promise<T>;

/** An error rejects the call of its task only; the next task runs regardless. */
export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
}
