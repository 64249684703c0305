// SPDX-License-Identifier: Apache-2.0
// New connections per second, from two readings of the same counters.

export interface Counted {
  /** undefined: not counted. */
  readonly connections?: number | undefined;
}

export type Rated<R> = R & {
  /** undefined: the row has no earlier reading, or is not counted. */
  readonly newPerSecond: number | undefined;
};

interface Reading<R> {
  readonly rows: readonly R[];
  readonly atMs: number;
}

export function rated<R extends Counted>(
  now: Reading<R>,
  before: Reading<R> | undefined,
  keyOf: (row: R) => string,
): readonly Rated<R>[] {
  const earlier = new Map(before?.rows.map((row) => [keyOf(row), row.connections]));
  const seconds = (now.atMs - (before?.atMs ?? now.atMs)) / 1000;
  return now.rows.map((row) => {
    const { connections } = row;
    const count = earlier.get(keyOf(row));
    const isCounted = count !== undefined && connections !== undefined;
    // The counter of a frontend that was recreated starts at 0.
    const grown = isCounted ? Math.max(0, connections - count) : undefined;
    return {
      ...row,
      newPerSecond: grown === undefined || seconds <= 0 ? undefined : grown / seconds,
    };
  });
}

/** `12`, `0.5`; '' = not measured. */
export function rateText(perSecond: number | undefined): string {
  if (perSecond === undefined) return '';
  return perSecond >= 10 ? String(Math.round(perSecond)) : perSecond.toFixed(1).replace(/\.0$/, '');
}
