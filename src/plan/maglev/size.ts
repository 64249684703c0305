// SPDX-License-Identifier: Apache-2.0
// How many entries a Maglev table has. In few steps, because a table of another size is another table, with next to no
// entry in common.
import { MOST_ENTRIES } from '../../model/service/table-size.ts';

const STEPS: readonly number[] = [1009, 4093, 16_381, 65_521, MOST_ENTRIES];

/** What the paper recommends, so that shares differ by about 1 %. */
const ENTRIES_PER_BACKEND = 100;
/** Times the square of the backends: of those that one leaves behind, no more than half as many change as it had. */
const FOR_FEW_CHANGES = 9;

/** @param asked by the Service, if it asks for a size */
export function entriesFor(backends: number, asked?: number): number {
  if (backends <= 1) return 1;
  if (asked !== undefined && asked >= backends) return asked;
  const wanted = Math.max(ENTRIES_PER_BACKEND * backends, FOR_FEW_CHANGES * backends ** 2);
  return STEPS.find((entries) => entries >= wanted) ?? MOST_ENTRIES;
}
