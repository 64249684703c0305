// SPDX-License-Identifier: Apache-2.0
// Runs of slots in fl_slot_block: a head in the first slot, entries behind it, whole blocks.
import { SLOTS_PER_BLOCK } from '../../layout/layout.ts';
import type { ArrayTable } from '../../state/tables.ts';

/** Whole blocks: unused slots are 0. The head is in the first slot. */
export function writeRun(
  table: ArrayTable,
  first: number,
  head: number,
  entries: ArrayLike<number>,
): void {
  for (let from = 0, block = first; from <= entries.length; from += SLOTS_PER_BLOCK, block += 1) {
    const view = table.view(block);
    const at = table.offset(block);
    for (let slot = 0; slot < SLOTS_PER_BLOCK; slot += 1) {
      const number = from + slot;
      view.setUint32(at + 4 * slot, number === 0 ? head : (entries[number - 1] ?? 0), true);
    }
  }
}

/** The contents of a run in the kernel: its first slot, the service id or the length of a table, then the entries. */
export function readRun(table: ArrayTable, first: number, entries: number): readonly number[] {
  return Array.from({ length: 1 + entries }, (_, slot) => {
    const block = first + Math.floor(slot / SLOTS_PER_BLOCK);
    return table.view(block).getUint32(table.offset(block) + 4 * (slot % SLOTS_PER_BLOCK), true);
  });
}

/** As readRun, without the first slot, in little memory and time: for large tables. */
export function readEntries(table: ArrayTable, first: number, entries: number): Uint32Array {
  const ids = new Uint32Array(entries);
  for (let from = 0, block = first; from <= entries; from += SLOTS_PER_BLOCK, block += 1) {
    const view = table.view(block);
    const at = table.offset(block);
    for (let slot = from === 0 ? 1 : 0; slot < SLOTS_PER_BLOCK && from + slot <= entries; slot += 1)
      ids[from + slot - 1] = view.getUint32(at + 4 * slot, true);
  }
  return ids;
}
