// SPDX-License-Identifier: Apache-2.0
// A difference in words: what somebody else has changed.
import type { Family } from '../../../model/types.ts';
import type { Entry } from '../../entry.ts';
import { TABLE } from '../rules/names.ts';
import type { HeldTable, Wanted } from '../rules/types.ts';
import { diffTable, type SetElements, type TableDiff } from './diff.ts';

/** What is there now, against what was there when this agent had written last. */
export function driftOf(found: HeldTable, known: HeldTable, family: Family): readonly Entry[] {
  const wanted: Wanted = known;
  return changesOf(diffTable(found, wanted, true)).map(([name, text]) => ({
    id: { kind: 'chain', family, table: TABLE, chain: name },
    text: `${family} ${text}`,
  }));
}

function changesOf(diff: TableDiff): readonly (readonly [name: string, text: string])[] {
  const added = new Set(diff.addedChains.map(([name]) => name));
  const removed = new Set(diff.removedChains);
  const rewritten = new Set([...diff.emptied, ...diff.filled.map(([name]) => name)]);
  return [
    ...[...added].map((name) => [name, `chain ${name}: missing`] as const),
    ...[...removed]
      .filter((name) => !added.has(name))
      .map((name) => [name, `chain ${name}: not fairlead's`] as const),
    ...[...rewritten]
      .filter((name) => !added.has(name) && !removed.has(name))
      .map((name) => [name, `chain ${name}: other rules`] as const),
    ...diff.addedSets.map(([name, { kind }]) => [name, `${kind} ${name}: missing`] as const),
    ...diff.removedSets
      .filter(([name]) => !diff.addedSets.some(([other]) => other === name))
      .map(([name, kind]) => [name, `${kind} ${name}: not fairlead's`] as const),
    ...diff.removedForeign.map((one) => [one, `${one}: not fairlead's`] as const),
    ...elementChanges(diff),
  ];
}

function elementChanges({ addedElements, removedElements, addedSets }: TableDiff) {
  const isNew = new Set(addedSets.map(([name]) => name));
  const told = (list: readonly SetElements[], what: string) =>
    list
      .filter(({ set }) => !isNew.has(set))
      .map(({ set, elements }) => {
        const [key = ''] = elements[0] ?? [];
        const others = elements.length > 1 ? ` and ${elements.length - 1} more` : '';
        return [set, `${set}: ${key}${others} ${what}`] as const;
      });
  return [...told(addedElements, 'missing'), ...told(removedElements, "not fairlead's, or other")];
}

export const countChanges = (diff: TableDiff): number =>
  diff.filled.length +
  diff.removedChains.length +
  diff.removedForeign.length +
  [...diff.addedElements, ...diff.removedElements].reduce(
    (sum, { elements }) => sum + elements.length,
    0,
  );
