// SPDX-License-Identifier: Apache-2.0
// What the rows of `fairlead services` and `backends` share: the comparison of desired and programmed state, and
// their order.

/**
 * ok: in sync with the plan · missing: planned, not programmed · stale: programmed with other backends ·
 * node-process: a process of this node listens there and gets it, so no dataplane is to have it ·
 * withheld: the Service's own annotations leave it out on this node ·
 * extra: programmed, not planned, or by a dataplane that is not to serve it · not-served: no dataplane can serve
 * it to any client · unknown: no agent runs, so the desired state is not known.
 */
export type KernelState =
  | 'ok'
  | 'missing'
  | 'stale'
  | 'node-process'
  | 'withheld'
  | 'extra'
  | 'not-served'
  | 'unknown';

const byName = (a: { row: string }, b: { row: string }): number =>
  a.row < b.row ? -1 : a.row > b.row ? 1 : 0;

/** Rows that are sorted or merged between two pauses. */
const RUN = 1_000;

/** By the text, in the order of its bytes, in steps of about a millisecond. */
export function* sortedInSteps<T>(
  rows: readonly T[],
  text: (row: T) => string,
): Generator<void, readonly T[]> {
  let runs: Keyed<T>[][] = [];
  for (let from = 0; from < rows.length; from += RUN) {
    const run = rows.slice(from, from + RUN).map((value) => ({ value, row: text(value) }));
    runs.push(run.sort(byName));
    yield;
  }
  while (runs.length > 1) {
    const merged: Keyed<T>[][] = [];
    for (let at = 0; at < runs.length; at += 2)
      merged.push(yield* mergedInSteps(runs[at] ?? [], runs[at + 1] ?? []));
    runs = merged;
  }
  return runs[0]?.map(({ value }) => value) ?? [];
}

interface Keyed<T> {
  readonly value: T;
  readonly row: string;
}

/** Of equal ones those of `a` come first. */
function* mergedInSteps<T>(
  a: readonly Keyed<T>[],
  b: readonly Keyed<T>[],
): Generator<void, Keyed<T>[]> {
  const all: Keyed<T>[] = [];
  let [atA, atB] = [0, 0];
  while (all.length < a.length + b.length) {
    const [ofA, ofB] = [a[atA], b[atB]];
    if (ofA !== undefined && (ofB === undefined || byName(ofA, ofB) <= 0)) {
      all.push(ofA);
      atA += 1;
    } else if (ofB !== undefined) {
      all.push(ofB);
      atB += 1;
    }
    if (all.length % RUN === 0) yield;
  }
  return all;
}
