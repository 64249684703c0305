// SPDX-License-Identifier: Apache-2.0
// The sets of one service port: immutable runs of slots, shared by all frontends with equal content.
import { EMPTY_SET, type SetRef, SLOTS_PER_LINE } from '../maps/layout.ts';
import type { ArrayTable } from '../maps/tables.ts';
import { TableFull, type Taking } from './allocation.ts';
import { type Ledger, linesOf, type SetRecord, withItem, without } from './ledger.ts';

/**
 * Equal content is the same set; the empty set takes no line.
 * @param members ascending: bpf/common/select.h finds a remembered backend (affinity) by binary search
 */
export function ensureSet(taking: Taking, members: readonly number[]): SetRecord | undefined {
  const { ledger, record, undos } = taking;
  if (members.length === 0) return undefined;
  for (const set of record.sets) {
    if (!set.isDamaged && isEqual(set.members, members)) return set;
  }
  const { setLine } = ledger.tables;
  const line = ledger.lines.take(linesOf(members));
  if (line === undefined) {
    throw new TableFull(setLine.name, ledger.lines.capacity, 'set-lines');
  }
  writeSet(setLine, line, members);
  const generation = nextGeneration(ledger);
  // Most ports have one set, of all their backends: one list then serves both.
  const shared = isEqual(record.backends, members) ? record.backends : members;
  const set: SetRecord = { line, generation, members: shared, isDamaged: false };
  record.sets = withItem(record.sets, set);
  undos.push(() => {
    record.sets = without(record.sets, set);
    ledger.lines.give(line, linesOf(members));
  });
  return set;
}

/** Whole lines: what the last one has no backend for is 0. */
function writeSet(table: ArrayTable, first: number, members: readonly number[]): void {
  for (let slot = 0; slot < linesOf(members) * SLOTS_PER_LINE; slot += 1) {
    const line = first + Math.floor(slot / SLOTS_PER_LINE);
    const at = table.offset(line) + 4 * (slot % SLOTS_PER_LINE);
    table.view(line).setUint32(at, members[slot] ?? 0, true);
  }
}

/** The ids in the kernel's slots, as many as the set has. */
export function readSlots(table: ArrayTable, first: number, slots: number): readonly number[] {
  return Array.from({ length: slots }, (_, slot) => {
    const line = first + Math.floor(slot / SLOTS_PER_LINE);
    return table.view(line).getUint32(table.offset(line) + 4 * (slot % SLOTS_PER_LINE), true);
  });
}

/** Tells one use of a run of lines from the next, for people and for checks; wraps at 256. */
function nextGeneration(ledger: Ledger): number {
  ledger.setGeneration = (ledger.setGeneration + 1) & 0xff;
  return ledger.setGeneration;
}

export function isEqual(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index]);
}

export const refOf = (set: SetRecord | undefined): SetRef =>
  set === undefined
    ? EMPTY_SET
    : { line: set.line, slots: set.members.length, generation: set.generation };
