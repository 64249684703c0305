// SPDX-License-Identifier: Apache-2.0
// How full the tables of flows are, and what it means if one is full.
import type { TableFill } from '../../snapshot.ts';

const isHalfOpen = (name: string): boolean => name.startsWith('fl_new_');

/** @param used entries by the names of the tables */
export function flowFill(
  used: ReadonlyMap<string, number>,
  capacity: (name: string) => number,
): readonly TableFill[] {
  return [...used].map(([name, entries]) => {
    const row = { name, used: entries, capacity: capacity(name) };
    if (isHalfOpen(name)) return { ...row, evicts: true };
    return row.used < row.capacity ? row : { ...row, problem: fullText(row) };
  });
}

const fullText = ({ name, capacity }: TableFill): string =>
  `${name} is full (${capacity} flows): further ones stay among the half-open flows, of which the least recently used are evicted; raise --map-size flows=…`;
