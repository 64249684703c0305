// SPDX-License-Identifier: Apache-2.0
// The table of a set, as programs find it: behind the members, in a block of its own, after its length.
import { blocksFor, hasTable, type SetRef } from '../../../src/dataplane/bpf/maps/layout.ts';
import type { Tables } from '../../../src/dataplane/bpf/maps/tables.ts';
import { readRun } from '../../../src/dataplane/bpf/sync/service-port/runs.ts';

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
