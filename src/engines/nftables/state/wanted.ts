// SPDX-License-Identifier: Apache-2.0
// What is wanted of a table: all of it, or, after another ruleset, only the names that may differ.
import { endpointsDeclaration } from '../rows/shared.ts';
import { CLUSTER_IPS, HAIRPIN_CONNECTIONS, OPEN_CLUSTER_IPS } from '../rules/names.ts';
import type { Chain, Fragment, Ruleset, SetDeclaration, Wanted } from '../rules/types.ts';

interface Draft {
  readonly chains: Map<string, Chain | undefined>;
  readonly sets: Map<string, SetDeclaration | undefined>;
  readonly elements: Map<string, Map<string, string | undefined>>;
}

const emptyDraft = (): Draft => ({ chains: new Map(), sets: new Map(), elements: new Map() });

export function allWanted(ruleset: Ruleset): Wanted {
  const draft = emptyDraft();
  for (const [name, chain] of ruleset.chains) draft.chains.set(name, chain);
  for (const [name, declaration] of ruleset.sets) draft.sets.set(name, declaration);
  for (const fragment of ruleset.fragments.values()) add(draft, fragment);
  for (const key of hairpinsOf(ruleset)) setElement(draft, HAIRPIN_CONNECTIONS, key, '');
  for (const map of mapsOf(ruleset)) draft.sets.set(map, endpointsDeclaration(map, ruleset.family));
  return draft;
}

/** @param before has been written */
export function wantedSince(before: Ruleset, now: Ruleset): Wanted {
  const draft = emptyDraft();
  if (now.chains !== before.chains) {
    for (const name of before.chains.keys()) draft.chains.set(name, undefined);
    for (const [name, chain] of now.chains) draft.chains.set(name, chain);
  }
  const changed = [...now.fragments].filter(([key, one]) => before.fragments.get(key) !== one);
  const gone = [...before.fragments].filter(([key, one]) => now.fragments.get(key) !== one);
  for (const [, fragment] of gone) remove(draft, fragment);
  for (const [, fragment] of changed) add(draft, fragment);
  keepShared(draft, now);
  if (changed.length + gone.length > 0) {
    for (const key of hairpinsOf(before)) setElement(draft, HAIRPIN_CONNECTIONS, key, undefined);
    for (const key of hairpinsOf(now)) setElement(draft, HAIRPIN_CONNECTIONS, key, '');
    const [maps, mapsBefore] = [mapsOf(now), mapsOf(before)];
    for (const map of mapsBefore) if (!maps.has(map)) draft.sets.set(map, undefined);
    for (const map of maps)
      if (!mapsBefore.has(map)) draft.sets.set(map, endpointsDeclaration(map, now.family));
  }
  return draft;
}

function add({ chains, sets, ...draft }: Draft, fragment: Fragment): void {
  for (const [name, rules] of fragment.chains) chains.set(name, { hook: '', rules });
  for (const [name, declaration] of fragment.sets) sets.set(name, declaration);
  for (const { set, key, value } of fragment.elements) setElement(draft, set, key, value);
}

function remove({ chains, sets, ...draft }: Draft, fragment: Fragment): void {
  for (const [name] of fragment.chains) chains.set(name, undefined);
  for (const [name] of fragment.sets) sets.set(name, undefined);
  for (const { set, key } of fragment.elements) setElement(draft, set, key, undefined);
}

/** Two Services may ask for one ClusterIP: what one of them leaves stays another's. */
function keepShared(draft: Draft, { fragments }: Ruleset): void {
  const left = [CLUSTER_IPS, OPEN_CLUSTER_IPS].some((set) =>
    [...(draft.elements.get(set)?.values() ?? [])].includes(undefined),
  );
  if (!left) return;
  for (const { elements } of fragments.values()) {
    for (const { set, key, value } of elements) {
      const wanted = draft.elements.get(set);
      if (wanted?.has(key) === true && wanted.get(key) === undefined) wanted.set(key, value);
    }
  }
}

function setElement(
  { elements }: Pick<Draft, 'elements'>,
  set: string,
  key: string,
  value: string | undefined,
): void {
  const known = elements.get(set);
  if (known === undefined) elements.set(set, new Map([[key, value]]));
  else known.set(key, value);
}

const mapsOf = ({ fragments }: Ruleset): ReadonlySet<string> => {
  const maps = new Set<string>();
  for (const fragment of fragments.values()) for (const map of fragment.maps) maps.add(map);
  return maps;
};

/** Few: a node has a hundred pods or so. */
function* hairpinsOf({ fragments }: Ruleset): Iterable<string> {
  for (const { hairpins } of fragments.values()) yield* hairpins;
}
