// SPDX-License-Identifier: Apache-2.0
// How full the table of connections is (fl_conn_count): what each CPU has done to it, added up without a look at the table.
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { ArrayTable } from '../state/tables.ts';

/** struct conn_counts, in its order. */
const COUNTS = [
  ...(['claimed', 'released', 'halfClaimed', 'halfGone'] as const),
  ...(['evicted', 'noRoom', 'noReply', 'doubled'] as const),
] as const;

export interface Occupancy {
  readonly used: number;
  /** Of them: not confirmed by both sides. */
  readonly halfOpen: number;
  /** Connections that found no slot, since the maps were made. */
  readonly noRoom: number;
}

/** Rows of one CPU: IPv4, IPv6. */
export function occupancyOf(counts: ArrayTable): Readonly<Record<Family, Occupancy>> {
  const sums = FAMILIES.map(() => new Array<number>(COUNTS.length).fill(0));
  counts.scan((view, offset, row) => {
    const sum = sums[row % FAMILIES.length] ?? [];
    for (let count = 0; count < COUNTS.length; count += 1) {
      const value = Number(view.getBigUint64(offset + 8 * count, true));
      if (value !== 0) sum[count] = (sum[count] ?? 0) + value;
    }
    return false;
  });
  const [IPv4, IPv6] = sums.map(occupancy);
  return { IPv4, IPv6 } as Readonly<Record<Family, Occupancy>>;
}

function occupancy(sum: readonly number[]): Occupancy {
  const of = (count: (typeof COUNTS)[number]): number => sum[COUNTS.indexOf(count)] ?? 0;
  return {
    used: Math.max(0, of('claimed') - of('released')),
    halfOpen: Math.max(0, of('halfClaimed') - of('halfGone')),
    noRoom: of('noRoom'),
  };
}
