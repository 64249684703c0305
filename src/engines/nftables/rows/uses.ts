// SPDX-License-Identifier: Apache-2.0
// What fragments of Services share, with how many name it: kept from plan to plan, so that one change costs the same with ten
// thousand Services as with ten.
import type { Fragment, Ruleset } from '../rules/types.ts';

export interface Uses extends Pick<Ruleset, 'maps' | 'hairpins'> {
  /** All Services with a ClusterIP say the same. */
  readonly masquerades: Fragment['masquerades'];
  /** Of the Services that say it. */
  readonly masquerading: ReadonlyMap<string, number>;
}

type Counts = ReadonlyMap<string, number>;

export const NO_USES: Uses = {
  ...{ maps: new Map(), hairpins: new Map(), masquerading: new Map() },
  masquerades: 'nobody',
};

/** @param before the fragments that `uses` is of @param changes undefined: it is gone */
export function usesAfter(
  uses: Uses,
  before: ReadonlyMap<string, Fragment>,
  changes: readonly (readonly [key: string, fragment: Fragment | undefined])[],
): Uses {
  const gone = changes.flatMap(([key]) => before.get(key) ?? []);
  const come = changes.flatMap(([, fragment]) => fragment ?? []);
  const counted = (counts: Counts, namesIn: (fragment: Fragment) => readonly string[]): Counts =>
    recounted(counts, gone.flatMap(namesIn), come.flatMap(namesIn));
  const masquerading = counted(uses.masquerading, ({ masquerades }) => [masquerades]);
  return {
    maps: counted(uses.maps, ({ maps }) => [...new Set(maps)]),
    hairpins: counted(uses.hairpins, ({ hairpins }) => hairpins),
    masquerading,
    masquerades: masquerading.has('everyone')
      ? 'everyone'
      : masquerading.has('others')
        ? 'others'
        : 'nobody',
  };
}

/** The same if nothing is different. */
function recounted(counts: Counts, gone: readonly string[], come: readonly string[]): Counts {
  const difference = new Map<string, number>();
  const add = (names: readonly string[], step: number): void => {
    for (const name of names) difference.set(name, (difference.get(name) ?? 0) + step);
  };
  add(come, 1);
  add(gone, -1);
  const changed = [...difference].filter(([, step]) => step !== 0);
  if (changed.length === 0) return counts;
  const next = new Map(counts);
  for (const [name, step] of changed) {
    const count = (next.get(name) ?? 0) + step;
    if (count === 0) next.delete(name);
    else next.set(name, count);
  }
  return next;
}
