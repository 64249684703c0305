// SPDX-License-Identifier: Apache-2.0
// What has to change so that a table is as it is wanted, by name.
import type { Chain, HeldTable, SetDeclaration, Wanted } from '../rules/types.ts';

export interface TableDiff {
  /** Rules are removed first: nothing that they name can be removed before. */
  readonly emptied: readonly string[];
  /** Of another kind or with another hook than wanted, or nobody's: gone, and perhaps made anew. */
  readonly removedChains: readonly string[];
  readonly removedSets: readonly (readonly [name: string, kind: SetDeclaration['kind']])[];
  readonly removedElements: readonly SetElements[];
  readonly removedForeign: readonly string[];
  readonly addedChains: readonly (readonly [name: string, hook: string])[];
  readonly addedSets: readonly (readonly [name: string, declaration: SetDeclaration])[];
  readonly addedElements: readonly SetElements[];
  readonly filled: readonly (readonly [name: string, rules: string])[];
}

export interface SetElements {
  readonly set: string;
  readonly elements: readonly (readonly [key: string, value: string])[];
}

/** @param isAll what is held and not named in `wanted` is nobody's */
export function diffTable(held: HeldTable, wanted: Wanted, isAll: boolean): TableDiff {
  const sets = diffSets(held, wanted, isAll);
  const { removed, added } = diffElements(held, wanted, isAll, sets.replaced);
  return {
    ...diffChains(held, wanted, isAll, sets.replaced),
    removedSets: sets.removed,
    addedSets: sets.added,
    removedElements: removed,
    addedElements: added,
    removedForeign: isAll ? [...held.foreign] : [],
  };
}

export const isNothing = (diff: TableDiff): boolean =>
  Object.values(diff).every((list: readonly unknown[]) => list.length === 0);

/** What is to be looked at: a name with what is wanted of it. */
function* namesOf<Value>(
  held: ReadonlyMap<string, unknown>,
  wanted: ReadonlyMap<string, Value | undefined>,
  isAll: boolean,
): Iterable<readonly [string, Value | undefined]> {
  yield* wanted;
  if (!isAll) return;
  for (const name of held.keys()) if (!wanted.has(name)) yield [name, undefined];
}

function diffSets(held: HeldTable, wanted: Wanted, isAll: boolean) {
  const removed: [string, SetDeclaration['kind']][] = [];
  const added: [string, SetDeclaration][] = [];
  const replaced = new Set<string>();
  for (const [name, declaration] of namesOf(held.sets, wanted.sets, isAll)) {
    const before = held.sets.get(name);
    if (before?.kind === declaration?.kind && before?.lines === declaration?.lines) continue;
    if (before !== undefined) {
      removed.push([name, before.kind]);
      replaced.add(name);
    }
    if (declaration !== undefined) added.push([name, declaration]);
  }
  return { removed, added, replaced };
}

function diffElements(
  held: HeldTable,
  wanted: Wanted,
  isAll: boolean,
  replaced: ReadonlySet<string>,
) {
  const removed: SetElements[] = [];
  const added: SetElements[] = [];
  const nothing: ReadonlyMap<string, string | undefined> = new Map();
  const isMeant = (set: string): boolean => !replaced.has(set) && held.sets.has(set);
  for (const [set, elements] of namesOf(held.elements, wanted.elements, isAll)) {
    const before = isMeant(set) ? held.elements.get(set) : undefined;
    const gone: [string, string][] = [];
    const come: [string, string][] = [];
    for (const [key, value] of namesOf(before ?? nothing, elements ?? nothing, isAll)) {
      const known = before?.get(key);
      if (known === value) continue;
      if (known !== undefined) gone.push([key, known]);
      if (value !== undefined) come.push([key, value]);
    }
    if (gone.length > 0) removed.push({ set, elements: gone });
    if (come.length > 0) added.push({ set, elements: come });
  }
  return { removed, added };
}

function diffChains(
  held: HeldTable,
  wanted: Wanted,
  isAll: boolean,
  replaced: ReadonlySet<string>,
): Pick<TableDiff, 'emptied' | 'removedChains' | 'addedChains' | 'filled'> {
  const emptied: string[] = [];
  const removedChains: string[] = [];
  const addedChains: [string, string][] = [];
  const filled: [string, string][] = [];
  const replace = (name: string, before: Chain | undefined, now: Chain): void => {
    if (before !== undefined && before.rules !== '') emptied.push(name);
    if (before !== undefined && before.hook !== now.hook) removedChains.push(name);
    if (before?.hook !== now.hook) addedChains.push([name, now.hook]);
    if (now.rules !== '') filled.push([name, now.rules]);
  };
  for (const [name, chain] of namesOf(held.chains, wanted.chains, isAll)) {
    const before = held.chains.get(name);
    if (chain === undefined) {
      if (before === undefined) continue;
      if (before.rules !== '') emptied.push(name);
      removedChains.push(name);
    } else if (before?.rules !== chain.rules || before.hook !== chain.hook) {
      replace(name, before, chain);
    }
  }
  // A set that is replaced must be named by no rule meanwhile.
  if (replaced.size > 0) {
    const known = new Set([...emptied, ...filled.map(([name]) => name)]);
    for (const [name, chain] of held.chains) {
      const isWanted = !wanted.chains.has(name) || wanted.chains.get(name) !== undefined;
      if (known.has(name) || !isWanted || !namesAny(chain.rules, replaced)) continue;
      emptied.push(name);
      filled.push([name, (wanted.chains.get(name) ?? chain).rules]);
    }
  }
  return { emptied, removedChains, addedChains, filled };
}

const namesAny = (rules: string, sets: ReadonlySet<string>): boolean =>
  [...rules.matchAll(/@(\S+)/g)].some(([, name = '']) => sets.has(name));
