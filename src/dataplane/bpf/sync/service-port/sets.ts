// SPDX-License-Identifier: Apache-2.0
// The sets of one service port: immutable runs of slots, shared by all traffic rules with equal content. A set's table
// is a second run, right behind the members.
import {
  EMPTY_SET,
  hasTable,
  type RuleValue,
  type SetRef,
  SLOTS_PER_BLOCK,
} from '../../maps/layout.ts';
import type { ArrayTable } from '../../maps/tables.ts';
import { type Allocation, TableFull } from '../allocation/allocation.ts';
import {
  type BaseRecord,
  baseBlock,
  blocksOf,
  type Ledger,
  type SetContent,
  type SetRecord,
  tableBlock,
  withItem,
  without,
} from '../ledger.ts';
import { baseAfter, bootSeconds } from './base.ts';
import { digestOf, isSameMaglev, type WantedSet } from './maglev-content.ts';

/**
 * Equal content is the same set; the empty set needs no block.
 * @param wanted its members ascend: bpf/common/select.h finds a remembered backend (affinity) by binary search
 */
export function ensureSet(allocation: Allocation, wanted: WantedSet): SetRecord | undefined {
  const { ledger, record, undos } = allocation;
  const { kind, members, table, former } = wanted;
  if (members.length === 0) return undefined;
  if (former !== undefined && isSameContent(former, wanted)) return former;
  const ids = wanted.maglev?.ids();
  const baseIds = former && baseAfter(ledger, former, ids);
  const known = record.sets.find((set) => !set.isDamaged && isSameContent(set, wanted));
  if (known !== undefined && baseIds === undefined) return known;
  const maglev = wanted.maglev &&
    ids && { entries: ids.length, digest: digestOf(ids), shares: wanted.maglev.shares };
  const content: SetContent = { kind, members, table, ...(maglev && { maglev }) };
  const { slotBlock } = ledger.tables;
  const { block, base } = takeRun(ledger, content, baseIds);
  writeRun(slotBlock, block, record.serviceId, members);
  // Most ports have one set with all their backends: one list serves both.
  const shared = isEqual(record.backends, members) ? record.backends : members;
  const set: SetRecord = { ...content, block, base, members: shared, isDamaged: false };
  const entries = ids ?? table;
  if (hasTable(kind)) writeRun(slotBlock, tableBlock(set), entries.length, entries);
  if (base !== undefined && baseIds !== undefined) {
    writeRun(slotBlock, baseBlock(set), base.entries, withLast(baseIds, base.since));
    ledger.bases.set(set, record);
  }
  record.sets = withItem(record.sets, set);
  undos.push(() => {
    record.sets = without(record.sets, set);
    ledger.bases.delete(set);
    ledger.blocks.give(block, blocksOf(set));
  });
  return set;
}

function withLast(ids: Uint32Array, last: number): Uint32Array {
  const all = new Uint32Array(ids.length + 1);
  all.set(ids);
  all[ids.length] = last;
  return all;
}

/** Bases are dispensable: but those of all Services end before a set goes without its own, see endBases(). */
function takeRun(
  { blocks, bases, tables: { slotBlock } }: Ledger,
  content: SetContent,
  baseIds: Uint32Array | undefined,
): { readonly block: number; readonly base: BaseRecord | undefined } {
  const base = baseIds && {
    entries: baseIds.length,
    digest: digestOf(baseIds),
    since: bootSeconds(),
  };
  const block = blocks.take(blocksOf({ ...content, base }));
  if (block !== undefined) return { block, base };
  const without =
    base && bases.size === 0 && blocks.take(blocksOf({ ...content, base: undefined }));
  if (typeof without === 'number') return { block: without, base: undefined };
  throw new TableFull(slotBlock.name, blocks.capacity, 'slot-blocks');
}

const isSameContent = (held: SetRecord, wanted: WantedSet): boolean =>
  held.kind === wanted.kind &&
  isEqual(held.members, wanted.members) &&
  isEqual(held.table, wanted.table) &&
  isSameMaglev(held.maglev, wanted.maglev);

/** Whole blocks: unused slots are 0. The head is in the first slot. */
function writeRun(
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

export function isEqual(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index]);
}

export const refOf = (set: SetRecord | undefined): SetRef & Pick<RuleValue, 'hasBase'> =>
  set === undefined
    ? EMPTY_SET
    : {
        block: set.block,
        members: set.members.length,
        kind: set.kind,
        hasBase: set.base !== undefined,
      };
