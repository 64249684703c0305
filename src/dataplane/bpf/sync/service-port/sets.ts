// SPDX-License-Identifier: Apache-2.0
// The sets of one service port: immutable runs of slots, shared by all traffic rules with equal content.
import { EMPTY_SET, type SetRef, SLOTS_PER_BLOCK } from '../../maps/layout.ts';
import type { ArrayTable } from '../../maps/tables.ts';
import { type Allocation, TableFull } from '../allocation/allocation.ts';
import { blocksOf, type SetRecord, withItem, without } from '../ledger.ts';

/**
 * Equal content is the same set; the empty set needs no block.
 * @param members ascending: bpf/common/select.h finds a remembered backend (affinity) by binary search
 */
export function ensureSet(
  allocation: Allocation,
  members: readonly number[],
): SetRecord | undefined {
  const { ledger, record, undos } = allocation;
  if (members.length === 0) return undefined;
  for (const set of record.sets) {
    if (!set.isDamaged && isEqual(set.members, members)) return set;
  }
  const { slotBlock } = ledger.tables;
  const block = ledger.blocks.take(blocksOf(members));
  if (block === undefined) {
    throw new TableFull(slotBlock.name, ledger.blocks.capacity, 'slot-blocks');
  }
  writeSet(slotBlock, block, [record.serviceId, ...members]);
  // Most ports have one set with all their backends: one list serves both.
  const shared = isEqual(record.backends, members) ? record.backends : members;
  const set: SetRecord = { block, kind: 'random', members: shared, isDamaged: false };
  record.sets = withItem(record.sets, set);
  undos.push(() => {
    record.sets = without(record.sets, set);
    ledger.blocks.give(block, blocksOf(members));
  });
  return set;
}

/** Whole blocks: unused slots are 0. */
function writeSet(table: ArrayTable, first: number, slots: readonly number[]): void {
  for (let from = 0, block = first; from < slots.length; from += SLOTS_PER_BLOCK, block += 1) {
    const view = table.view(block);
    const at = table.offset(block);
    for (let slot = 0; slot < SLOTS_PER_BLOCK; slot += 1) {
      view.setUint32(at + 4 * slot, slots[from + slot] ?? 0, true);
    }
  }
}

/** The contents of a run in the kernel: the service id, then `members` backend ids. */
export function readRun(table: ArrayTable, first: number, members: number): readonly number[] {
  return Array.from({ length: 1 + members }, (_, slot) => {
    const block = first + Math.floor(slot / SLOTS_PER_BLOCK);
    return table.view(block).getUint32(table.offset(block) + 4 * (slot % SLOTS_PER_BLOCK), true);
  });
}

export function isEqual(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index]);
}

export const refOf = (set: SetRecord | undefined): SetRef =>
  set === undefined ? EMPTY_SET : { block: set.block, members: set.members.length, kind: set.kind };
