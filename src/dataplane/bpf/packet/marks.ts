// SPDX-License-Identifier: Apache-2.0
// fl_mark, which the packet programs write: the addresses that flows have had. Flows in pinned tables that are older than
// the map have no marks.
import { FAMILIES } from '../../../model/types.ts';
import type { BpfMap } from '../../../sys/native.ts';
import type { FlowTables } from '../flows/flow-tables.ts';
import { encodeU32 } from '../maps/layout.ts';

/** Marks every address if none is marked although there are flows: a mark too many costs only look-ups. */
export function markOlderFlows(marks: BpfMap, flows: FlowTables): void {
  if (!hasFlows(flows) || marks.readAll().values.some((mark) => mark !== 0)) return;
  const { maxEntries, valueSize } = marks.info;
  const all = new Uint8Array(valueSize).fill(1);
  // Behind them is the epoch.
  for (let line = 0; line < maxEntries - 1; line++) marks.put(encodeU32(line), all);
}

const hasFlows = (flows: FlowTables): boolean =>
  FAMILIES.flatMap((family) => Object.values(flows[family].flow)).some((table) => {
    for (const { count } of table.batches()) if (count > 0) return true;
    return false;
  });
