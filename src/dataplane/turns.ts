// SPDX-License-Identifier: Apache-2.0
// Work that must not overlap, one piece after the other in the order it was asked for.

export type Turns = <T>(work: () => Promise<T>) => Promise<T>;

/** What one turn throws is its caller's alone; the next one begins all the same. */
export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
}
