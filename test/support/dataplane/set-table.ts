// SPDX-License-Identifier: Apache-2.0
// The table of a set, as programs find it: behind the members, in a block of its own, after its length.
import { blocksFor, hasTable, type SetRef } from '../../../src/engines/bpf/layout/layout.ts';
import { readRun } from '../../../src/engines/bpf/rows/service-port/runs.ts';
import type { Tables } from '../../../src/engines/bpf/state/tables.ts';

/** Backend ids, without the weights that some kinds have beside them; none if sets of this kind have no table. */
export function tableEntries(
  { slotBlock }: Pick<Tables, 'slotBlock'>,
  { block, members, kind }: SetRef,
): readonly number[] {
  if (!hasTable(kind)) return [];
  const first = block + blocksFor(members);
  const [length = 0] = readRun(slotBlock, first, 0);
  const entries = readRun(slotBlock, first, length).slice(1);
  return kind === 'weighted-least-connections'
    ? entries.filter((_, index) => index % 2 === 0)
    : entries;
}
