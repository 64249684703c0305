// SPDX-License-Identifier: Apache-2.0
// How full the tables of connections are, and what it means if one is full.
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { TableFill } from '../../snapshot.ts';
import { digitOf } from '../conn/conn-table.ts';
import type { Occupancy } from '../conn/counts.ts';
import { capacityOf } from '../conn/sizes.ts';

/**
 * @param buckets of the clients' index
 * @param before what had found no place at the last look
 */
export function connFill(
  occupancy: Readonly<Record<Family, Occupancy>>,
  buckets: (family: Family) => number,
  before: Readonly<Record<Family, number>>,
): readonly TableFill[] {
  return FAMILIES.flatMap((family) => {
    const { used, noRoom, halfOpen } = occupancy[family];
    const digit = digitOf(family);
    const row = { name: `fl_conn${digit}`, used, capacity: capacityOf(buckets(family)) };
    const lost = noRoom - before[family];
    return [
      lost > 0 ? { ...row, problem: fullText(row, lost) } : row,
      {
        name: `fl_client${digit}`,
        used: halfOpen,
        capacity: MOST_HALF * buckets(family),
        evicts: true,
      },
    ];
  });
}

/** Slots of each bucket that half-open connections may have: client/evict.h. */
const MOST_HALF = 3;

const fullText = ({ name, capacity }: TableFill, lost: number): string =>
  `${name} is full (made for ${capacity} connections): ${lost} have found no place in the last seconds, their packets were dropped; it grows up to --map-size flows=…: raise that, or look in the log why it cannot grow`;
