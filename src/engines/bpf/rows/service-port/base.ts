// SPDX-License-Identifier: Apache-2.0
// Where a lookup table decides and answers do not come by, connections have no records: the table knows their backends. When it
// changes, the new set keeps the former table as its base, see bpf/packet/flow/stateless.h and ADR 48. A base is dispensable:
// without it, connections whose entries differ end.
import type { Protocol } from '../../../../model/types.ts';
import {
  baseBlocksFor,
  decodeFrontend,
  dropBases,
  type FrontendValue,
  POSITIONS,
  type RuleValue,
  SLOTS_PER_BLOCK,
} from '../../layout/layout.ts';
import { nameOf } from '../../layout/names.ts';
import {
  baseBlock,
  type Ledger,
  type PortRecord,
  type SetRecord,
  tableBlock,
} from '../../state/ledger.ts';
import { storeWords } from '../../state/tables.ts';
import { digestOf } from './lookup-content.ts';
import type { RenderedFrontend, RenderedSet } from './render.ts';
import { readEntries } from './runs.ts';

type Flags = Pick<RuleValue, 'masquerade' | 'returnsDirectly'>;

/** As is_unanswered() in bpf/packet/flow/stateless.h. */
export const isUnanswered = ({ masquerade, returnsDirectly }: Flags): boolean =>
  masquerade && returnsDirectly === true;

/** Connections to NodePorts, and those with session affinity, have records. */
export const hasNoRecords = ({ key, rules, affinitySeconds }: FrontendValue): boolean =>
  key.address !== undefined && affinitySeconds === 0 && isUnanswered(rules.outside);

const isAsked = ({ key, rules }: RenderedFrontend, { scope, algorithm }: RenderedSet): boolean =>
  key.address !== undefined &&
  rules.outside.scope === scope &&
  rules.outside.algorithm === algorithm &&
  isUnanswered({ ...rules.outside, returnsDirectly: rules.outside.directReturn === true });

/**
 * The set by whose table, or base, connections without records have been chosen that are to go on with this one.
 * undefined: there are none.
 */
export function formerSet(
  { caches }: Ledger,
  record: PortRecord,
  frontends: readonly RenderedFrontend[],
  wanted: RenderedSet,
): SetRecord | undefined {
  if (!frontends.some((frontend) => isAsked(frontend, wanted))) return undefined;
  const held = record.frontends.find(({ id, sets: { outside } }) => {
    const isTable = outside?.lookup !== undefined || outside?.base !== undefined;
    return isTable && hasNoRecords(decodeFrontend(caches.frontend.value(id)));
  });
  const former = held?.sets.outside;
  return former?.isDamaged === true ? undefined : former;
}

/** The base of the set that follows; undefined: no entry is another one. */
export function baseAfter(
  { tables: { slotBlock } }: Ledger,
  former: SetRecord,
  table: Uint32Array | undefined,
): Uint32Array | undefined {
  const { base, lookup } = former;
  const ids =
    base === undefined
      ? readEntries(slotBlock, tableBlock(former), lookup?.entries ?? 0)
      : readEntries(slotBlock, baseBlock(former), base.entries);
  // Where its backend is gone the table decided, without records: those flows have the table's backend.
  if (base !== undefined && lookup?.entries === base.entries) {
    const decided = readEntries(slotBlock, tableBlock(former), base.entries);
    for (const [entry, id] of ids.entries()) if (id === 0) ids[entry] = decided[entry] ?? 0;
  }
  const isSame =
    table !== undefined &&
    table.length === ids.length &&
    ids.every((id, entry) => id === 0 || id === table[entry]);
  return isSame || ids.length === 0 ? undefined : ids;
}

/** Entries of backends that are gone become 0: those of the table hold. */
export function forgetGone({ tables: { slotBlock } }: Ledger, record: PortRecord): void {
  let alive: ReadonlySet<number> | undefined;
  for (const set of record.sets) {
    const { base } = set;
    if (base === undefined) continue;
    alive ??= new Set(record.backends);
    const first = baseBlock(set);
    const ids = readEntries(slotBlock, first, base.entries);
    for (const [entry, id] of ids.entries()) {
      if (id === 0 || alive.has(id)) continue;
      ids[entry] = 0;
      const block = first + Math.floor((1 + entry) / SLOTS_PER_BLOCK);
      const at = slotBlock.offset(block) + 4 * ((1 + entry) % SLOTS_PER_BLOCK);
      slotBlock.view(block).setUint32(at, 0, true);
    }
    base.digest = digestOf(ids);
  }
}

/** Whether a base that was made in this second is needed no more. */
export type IsOver = (protocol: Protocol, since: number) => boolean;

/** Takes them from their rules, in place. @returns how many */
export function endBases(ledger: Ledger, isOver: IsOver): number {
  let ended = 0;
  for (const [set, record] of ledger.bases) {
    if (set.base === undefined || !record.sets.includes(set)) {
      ledger.bases.delete(set);
    } else if (isOver(nameOf(record.key).protocol, set.base.since)) {
      endBase(ledger, record, set);
      ended += 1;
    }
  }
  return ended;
}

function endBase(ledger: Ledger, record: PortRecord, set: SetRecord): void {
  const { tables, caches, retired } = ledger;
  for (const { id, sets } of record.frontends) {
    const positions = POSITIONS.filter((position) => sets[position] === set);
    if (positions.length === 0) continue;
    const value = caches.frontend.value(id).slice();
    dropBases(value, positions);
    storeWords(tables.frontendRecord, id, value);
    caches.frontend.write(id, caches.frontend.key(id, record.family).slice(), value);
  }
  const blocks = baseBlocksFor(set.base?.entries ?? 0);
  retired.blocks.push({ first: baseBlock(set), blocks });
  set.base = undefined;
  ledger.bases.delete(set);
}
