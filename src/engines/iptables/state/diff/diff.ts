// SPDX-License-Identifier: Apache-2.0
// From what is held to what is wanted in the fewest steps, each table for itself: changed chains are emptied and filled
// again, those of Services that are gone are deleted after the last rule that jumps to them, and jumps from chains that
// others share are inserted where they are missing. What belongs to others is not touched.
import type { TableName } from '../../rules/types.ts';
import { isOfService, isOurs, isShared } from './ours.ts';
import {
  type ChainText,
  type HeldTable,
  type HeldTables,
  rulesIn,
  TABLES,
  textOfRules,
} from './text.ts';

export interface WantedJump {
  /** A chain of others: `PREROUTING`. */
  readonly from: string;
  readonly rule: string;
}

export interface WantedTable {
  readonly name: TableName;
  readonly chains: ReadonlyMap<string, ChainText>;
  /** In the order in which they are to stand, before all other rules of their chain. */
  readonly jumps: readonly WantedJump[];
  readonly changed?: Changed;
}

/** What is not in it is as it was wanted before. */
export interface Changed {
  readonly since: readonly WantedTable[];
  /** undefined: not wanted any more. */
  readonly chains: ReadonlyMap<string, ChainText | undefined>;
}

export interface FilledChain {
  readonly chain: string;
  /** False: it is there already. */
  readonly isNew: boolean;
  /** False: it keeps its rules, to which these are added. */
  readonly isEmptied: boolean;
  readonly rules: ChainText;
}

export interface DueJump extends WantedJump {
  /** How many there are now: all are removed, and one is inserted. */
  readonly count: number;
}

/** What is to be done to a table. */
export interface TableDiff {
  readonly name: TableName;
  readonly filled: readonly FilledChain[];
  readonly jumps: readonly DueJump[];
  /** Emptied and deleted. */
  readonly removed: readonly string[];
  /** Emptied only: rules of others jump to them, so that the kernel would refuse to delete them. */
  readonly emptied: readonly string[];
}

/** undefined: anything may differ from what was written. */
export const changedSince = (
  written: readonly WantedTable[] | undefined,
  { changed }: WantedTable,
): Changed['chains'] | undefined => (changed?.since === written ? changed?.chains : undefined);

/** @param written held is what this has made of it, so that only what has changed since then is compared */
export function diffTable(
  held: HeldTable,
  wanted: WantedTable,
  written?: readonly WantedTable[],
): TableDiff {
  const changed = changedSince(written, wanted);
  const chains = changed ?? wanted.chains;
  const stale =
    changed === undefined ? staleChains(held, wanted.name, chains) : goneChains(held, changed);
  const isReferred = referredBy(held, wanted.name, stale);
  return {
    name: wanted.name,
    filled: filledChains(held, chains),
    jumps: wanted.jumps
      .map((jump) => ({ ...jump, count: countOf(held, jump) }))
      .filter(({ count }) => count !== 1),
    removed: stale.filter((chain) => !isReferred(chain)),
    emptied: stale.filter((chain) => isReferred(chain) && held.get(chain) !== ''),
  };
}

/** In the order in which they are committed, as kube-proxy does it. */
export const diffTables = (
  held: HeldTables,
  wanted: readonly WantedTable[],
  written?: readonly WantedTable[],
): readonly TableDiff[] =>
  TABLES.flatMap((name) => {
    const table = wanted.find((one) => one.name === name);
    return table === undefined ? [] : [diffTable(held.get(name) ?? new Map(), table, written)];
  });

export const isNothing = ({ filled, jumps, removed, emptied }: TableDiff): boolean =>
  filled.length + jumps.length + removed.length + emptied.length === 0;

function filledChains(held: HeldTable, chains: Changed['chains']): readonly FilledChain[] {
  const filled: FilledChain[] = [];
  for (const [chain, text] of chains) {
    const before = held.get(chain);
    if (text === undefined || before === text) continue;
    const one = fill(chain, text, before);
    if (one !== undefined) filled.push(one);
  }
  return filled;
}

/** A chain of ours gets all of its rules, one that is shared those that are missing. */
function fill(chain: string, text: ChainText, before?: ChainText): FilledChain | undefined {
  const isNew = before === undefined;
  const isEmptied = isNew || !isShared(chain);
  if (isEmptied) return { chain, isNew, isEmptied, rules: text };
  const known = new Set(rulesIn(before));
  const rules = rulesIn(text).filter((rule) => !known.has(rule));
  if (rules.length === 0) return undefined;
  return { chain, isNew, isEmptied, rules: textOfRules(rules) };
}

function staleChains(
  held: HeldTable,
  name: TableName,
  chains: Changed['chains'],
): readonly string[] {
  if (name !== 'nat') return [];
  return [...held.keys()].filter((chain) => isOfService(chain) && !chains.has(chain));
}

const goneChains = (held: HeldTable, changed: Changed['chains']): readonly string[] =>
  [...changed].flatMap(([chain, text]) =>
    text === undefined && isOfService(chain) && held.has(chain) ? [chain] : [],
  );

const countOf = (held: HeldTable, { from, rule }: WantedJump): number =>
  rulesIn(held.get(from) ?? '').filter((one) => one === rule).length;

/** Of others, as they were read: what is written since then adds none that refer to chains of Services. */
const foreign = new WeakMap<HeldTable, readonly string[]>();

function foreignChains(held: HeldTable, name: TableName): readonly string[] {
  const found = foreign.get(held) ?? [...held.keys()].filter((chain) => !isOurs(name, chain));
  foreign.set(held, found);
  return found;
}

/** Our own chains are what is wanted afterwards, and that does not refer to stale ones. */
function referredBy(
  held: HeldTable,
  name: TableName,
  stale: readonly string[],
): (chain: string) => boolean {
  if (stale.length === 0) return () => false;
  const referred = new Set<string>();
  for (const chain of foreignChains(held, name)) {
    for (const [, target = ''] of (held.get(chain) ?? '').matchAll(/-[jg] (KUBE-\S+)/g))
      referred.add(target);
  }
  return (chain) => referred.has(chain);
}
