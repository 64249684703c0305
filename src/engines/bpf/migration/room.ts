// SPDX-License-Identifier: Apache-2.0
// Whether what is in the maps fits into smaller ones: asked before anything is touched.
import { FairleadError } from '../../../errors.ts';
import type { BpfMap } from '../../../sys/native.ts';
import { bucketsFor } from '../conn/sizes.ts';
import { CONN_HALF, CONN_SLOTS } from '../layout/conn-layout.ts';
import { baseBlocksFor, blocksFor, encodeU32, hasTable, setKindOf } from '../layout/layout.ts';
import { sizeFor } from '../layout/sizes.ts';
import type { PinnedMap } from '../layout/versions.ts';
import { countEntries, entriesOf, indexOf, TYPE } from './entries.ts';
import { fieldAt, parseFields, type Side } from './fields.ts';

export interface OpenChange {
  readonly map: PinnedMap;
  readonly from: BpfMap;
  readonly value: Side;
  readonly maxEntries: number;
}

/** Opens a map that is pinned now, changed or not; undefined: there is none. */
export type Opened = (map: PinnedMap) => Pick<OpenChange, 'from' | 'value'> | undefined;

/** Throws OTHER_SIZES. */
export function checkRoom(changes: readonly OpenChange[], opened: Opened): void {
  for (const change of changes) {
    if (change.maxEntries >= change.from.info.maxEntries) continue;
    const needed = neededOf(change, opened);
    if (needed <= change.maxEntries) continue;
    const least = sizeFor(change.map, needed);
    const advice =
      least === undefined
        ? ''
        : `set ${least.table} to at least ${least.entries} with --map-size, `;
    throw new FairleadError(
      'OTHER_SIZES',
      `${change.map} would have room for ${change.maxEntries} entries, and needs ${needed}: ${advice}remove Services, or run \`fairlead cleanup\` first (no Service is served until the next start); nothing was changed`,
    );
  }
}

/** Of tables that evict, the latest entries are kept. Counters of what is gone are left behind. */
function neededOf({ map, from, value }: OpenChange, opened: Opened): number {
  if (from.info.type === TYPE.hash || from.info.type === TYPE.lpmTrie) return countEntries(from);
  if (map === 'fl_client4' || map === 'fl_client6') return bucketsFor(confirmedSlots(from));
  if (map === 'fl_frontend') return 1 + Math.max(0, ...frontendIds(opened));
  if (map === 'fl_slot_block') return usedBlocks(opened);
  if (map === 'fl_backend4' || map === 'fl_backend6') return usedBackends(from, value);
  return 0;
}

/** By connections that both sides have confirmed: others give their slots. Of each bucket the last word is a count. */
function confirmedSlots(from: BpfMap): number {
  const memory = from.mmap();
  const words = new Uint32Array(memory);
  let confirmed = 0;
  for (const [at, word] of words.entries()) {
    const isHalf = (word & CONN_HALF) !== 0;
    if (word !== 0 && !isHalf && at % (CONN_SLOTS + 1) < CONN_SLOTS) confirmed += 1;
  }
  from.munmap(memory);
  return confirmed;
}

function frontendIds(opened: Opened): number[] {
  return (['fl_frontend4', 'fl_frontend6'] as const).flatMap((name) => {
    const map = opened(name);
    if (map === undefined) return [];
    return [...entriesOf(map.from)].map((entry) =>
      numberAt(entry.value, map.value, /frontend_id$/),
    );
  });
}

/** The table of a set, and its base, begin with their length. */
function lengthAt(opened: Opened, block: number): number {
  const slots = opened('fl_slot_block')?.from.get(encodeU32(block));
  return slots === undefined ? 0 : Number(littleEndian(slots.subarray(0, 4)));
}

/** Where the last run of a set ends. @param end of its members */
function endOfSet(
  opened: Opened,
  end: number,
  { hasTable: isTable, hasBase }: { readonly hasTable: boolean; readonly hasBase: boolean },
): number {
  const base = isTable ? end + blocksFor(lengthAt(opened, end)) : end;
  return hasBase ? base + baseBlocksFor(lengthAt(opened, base)) : base;
}

function usedBlocks(opened: Opened): number {
  const frontends = opened('fl_frontend');
  if (frontends === undefined) return 0;
  const { from, value } = frontends;
  const rules = parseFields(value.fields).flatMap(
    ({ name }) => /^(rule\[\d+\])\.block$/.exec(name)?.[1] ?? [],
  );
  let used = 0;
  for (const id of frontendIds(opened)) {
    const record =
      from.get(new Uint8Array(Uint32Array.of(id).buffer)) ?? new Uint8Array(value.bytes);
    for (const rule of rules) {
      const of = (field: string) =>
        numberAt(record, value, new RegExp(`^${escaped(rule)}\\.${field}$`));
      const members = of('members');
      if (members === 0) continue;
      const end = of('block') + blocksFor(members);
      const runs = {
        hasTable: hasTable(setKindOf(of('kind'))),
        hasBase: hasBit(record, value, new RegExp(`^${escaped(rule)}\\.flags\\.has_base$`)),
      };
      used = Math.max(used, endOfSet(opened, end, runs));
    }
  }
  return used;
}

const escaped = (rule: string): string => rule.replace(/[[\]]/g, '\\$&');

const ACTIVE = 1;
const TERMINATING = 2;

function usedBackends(from: BpfMap, value: Side): number {
  let used = 0;
  for (const entry of entriesOf(from)) {
    const state = numberAt(entry.value, value, /^state$/);
    if (state === ACTIVE || state === TERMINATING) used = Math.max(used, indexOf(entry.key) + 1);
  }
  return used;
}

function numberAt(bytes: Uint8Array, side: Side, name: RegExp): number {
  const field = fieldAt(side, name);
  if (field === undefined) return 0;
  return Number(littleEndian(bytes.subarray(field.at, field.at + field.bytes)));
}

function hasBit(bytes: Uint8Array, { fields }: Side, name: RegExp): boolean {
  const bit = parseFields(fields).find((field) => name.test(field.name))?.bit;
  return bit !== undefined && (((bytes[bit >> 3] ?? 0) >> (bit & 7)) & 1) === 1;
}

export const littleEndian = (bytes: Uint8Array): bigint =>
  bytes.reduceRight((number, byte) => number * 256n + BigInt(byte), 0n);
