// SPDX-License-Identifier: Apache-2.0
// What the rows of `fairlead services` and `backends` share: the comparison of desired and programmed state, and
// their order.

/**
 * ok: in sync with the plan · missing: planned, not programmed · stale: programmed with other backends ·
 * extra: programmed, not planned, or by a dataplane that is not to serve it · not-served: no dataplane can serve
 * it to any client · unknown: no agent runs, so the desired state is not known.
 */
export type KernelState = 'ok' | 'missing' | 'stale' | 'extra' | 'not-served' | 'unknown';

const byName = (a: { row: string }, b: { row: string }): number =>
  a.row < b.row ? -1 : a.row > b.row ? 1 : 0;

/** By the text, in the order of its bytes. */
export function sorted<T>(rows: readonly T[], text: (row: T) => string): readonly T[] {
  return rows
    .map((value) => ({ value, row: text(value) }))
    .sort(byName)
    .map(({ value }) => value);
}
