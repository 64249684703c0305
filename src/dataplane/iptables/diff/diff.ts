// SPDX-License-Identifier: Apache-2.0
// From what is held to what is wanted in the fewest steps, each table for itself: changed chains are emptied and filled
// again, those of Services that are gone are deleted after the last rule that jumps to them, and jumps from chains that
// others share are inserted where they are missing. What belongs to others is not touched.
import type { TableName } from '../rules/types.ts';
import { isOfService, isOurs, isShared } from './ours.ts';
import { type ChainText, type HeldTable, type HeldTables, rulesIn, TABLES } from './text.ts';

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
}

export interface FilledChain {
  readonly chain: string;
  /** False: it is there already. */
  readonly isNew: boolean;
  /** False: it keeps its rules, to which these are added. */
  readonly isEmptied: boolean;
  readonly rules: readonly string[];
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

/** Which chains of Services are to go unless they are wanted: all that are held, or only these. */
export type Candidates = 'all' | Iterable<string>;

export function diffTable(
  held: HeldTable,
  wanted: WantedTable,
  candidates: Candidates = 'all',
): TableDiff {
  const stale = staleChains(held, wanted, candidates);
  const isReferred = referredBy(held, wanted.name, stale);
  return {
    name: wanted.name,
    filled: [...wanted.chains].flatMap(([chain, text]) => fill(held, chain, text)),
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
  candidates: Candidates = 'all',
): readonly TableDiff[] =>
  TABLES.flatMap((name) => {
    const table = wanted.find((one) => one.name === name);
    return table === undefined ? [] : [diffTable(held.get(name) ?? new Map(), table, candidates)];
  });

export const isNothing = ({ filled, jumps, removed, emptied }: TableDiff): boolean =>
  filled.length + jumps.length + removed.length + emptied.length === 0;

/** A chain of ours gets all of its rules, one that is shared those that are missing. */
function fill(held: HeldTable, chain: string, text: ChainText): readonly FilledChain[] {
  const before = held.get(chain);
  if (before === text) return [];
  const isNew = before === undefined;
  const isEmptied = isNew || !isShared(chain);
  if (isEmptied) return [{ chain, isNew, isEmptied, rules: rulesIn(text) }];
  const known = new Set(rulesIn(before));
  const rules = rulesIn(text).filter((rule) => !known.has(rule));
  return rules.length === 0 ? [] : [{ chain, isNew, isEmptied, rules }];
}

function staleChains(
  held: HeldTable,
  { name, chains }: WantedTable,
  candidates: Candidates,
): readonly string[] {
  if (name !== 'nat') return [];
  const asked = candidates === 'all' ? [...held.keys()].filter(isOfService) : [...candidates];
  return asked.filter((chain) => !chains.has(chain) && held.has(chain));
}

const countOf = (held: HeldTable, { from, rule }: WantedJump): number =>
  rulesIn(held.get(from) ?? '').filter((one) => one === rule).length;

/** Our own chains are what is wanted afterwards, and that does not refer to stale ones. */
function referredBy(
  held: HeldTable,
  name: TableName,
  stale: readonly string[],
): (chain: string) => boolean {
  if (stale.length === 0) return () => false;
  const others = [...held].filter(([chain]) => !isOurs(name, chain));
  const targets = others.flatMap(([, text]) =>
    [...text.matchAll(/-[jg] (KUBE-\S+)/g)].map(([, target]) => target),
  );
  const referred = new Set(targets);
  return (chain) => referred.has(chain);
}
