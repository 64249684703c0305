// SPDX-License-Identifier: Apache-2.0
// The sets of one service port: immutable runs of slots, shared by all traffic rules with equal content. A set's table
// is a second run, right behind the members.

import { bootSeconds } from '../../conn/clock.ts';
import { EMPTY_SET, hasTable, type RuleValue, type SetRef } from '../../layout/layout.ts';
import { type Allocation, TableFull } from '../../state/allocation/allocation.ts';
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
} from '../../state/ledger.ts';
import { baseAfter } from './base.ts';
import { digestOf, isSameLookup, type WantedSet } from './lookup-content.ts';
import { writeRun } from './runs.ts';

/**
 * Equal content is the same set; the empty set needs no block.
 * @param wanted its members ascend: bpf/common/select.h finds a remembered backend (affinity) by binary search
 */
export function ensureSet(allocation: Allocation, wanted: WantedSet): SetRecord | undefined {
  const { ledger, record, undos } = allocation;
  const { kind, members, table, former } = wanted;
  if (members.length === 0) return undefined;
  if (former !== undefined && isSameContent(former, wanted)) return former;
  const ids = wanted.lookup?.ids();
  const baseIds = former && baseAfter(ledger, former, ids);
  const known = record.sets.find((set) => !set.isDamaged && isSameContent(set, wanted));
  if (known !== undefined && baseIds === undefined) return known;
  const lookup = wanted.lookup &&
    ids && { entries: ids.length, digest: digestOf(ids), shares: wanted.lookup.shares };
  const content: SetContent = { kind, members, table, ...(lookup && { lookup }) };
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
  isSameLookup(held.lookup, wanted.lookup);

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
