// SPDX-License-Identifier: Apache-2.0
// Makes a held table what it is after a transaction.
import type { HeldTable } from '../rules/types.ts';
import type { TableDiff } from './diff.ts';

export function applyDiff(held: HeldTable, diff: TableDiff): void {
  for (const name of diff.emptied) {
    const chain = held.chains.get(name);
    if (chain !== undefined) held.chains.set(name, { ...chain, rules: '' });
  }
  for (const { set, elements } of diff.removedElements)
    for (const [key] of elements) held.elements.get(set)?.delete(key);
  for (const name of diff.removedChains) held.chains.delete(name);
  for (const [name] of diff.removedSets) {
    held.sets.delete(name);
    held.elements.delete(name);
  }
  for (const one of diff.removedForeign) held.foreign.delete(one);
  for (const [name, hook] of diff.addedChains) held.chains.set(name, { hook, rules: '' });
  for (const [name, declaration] of diff.addedSets) {
    held.sets.set(name, declaration);
    if (!declaration.isDynamic) held.elements.set(name, new Map());
  }
  for (const { set, elements } of diff.addedElements)
    for (const [key, value] of elements) held.elements.get(set)?.set(key, value);
  for (const [name, rules] of diff.filled)
    held.chains.set(name, { hook: held.chains.get(name)?.hook ?? '', rules });
}
