// SPDX-License-Identifier: Apache-2.0
// What is wanted of a table: all of it, or, after another ruleset, only the names that may differ.
import { differences } from '../../../lib/persistent/map.ts';
import { endpointsDeclaration } from '../rows/shared.ts';
import { HAIRPIN_CONNECTIONS } from '../rules/names.ts';
import type { Chain, Fragment, Ruleset, SetDeclaration, Wanted } from '../rules/types.ts';

interface Draft {
  readonly chains: Map<string, Chain | undefined>;
  readonly sets: Map<string, SetDeclaration | undefined>;
  readonly elements: Map<string, Map<string, string | undefined>>;
}

/** Of a Service that is not there. */
const NOTHING: Pick<Fragment, 'chains' | 'sets' | 'elements'> = {
  chains: [],
  sets: [],
  elements: [],
};

const emptyDraft = (): Draft => ({ chains: new Map(), sets: new Map(), elements: new Map() });

export function allWanted(ruleset: Ruleset): Wanted {
  const draft = emptyDraft();
  for (const [name, chain] of ruleset.chains) draft.chains.set(name, chain);
  for (const [name, declaration] of ruleset.sets) draft.sets.set(name, declaration);
  for (const fragment of ruleset.fragments.values()) add(draft, fragment);
  for (const key of ruleset.hairpins.keys()) setElement(draft, HAIRPIN_CONNECTIONS, key, '');
  for (const map of ruleset.maps.keys())
    draft.sets.set(map, endpointsDeclaration(map, ruleset.family));
  return draft;
}

/** @param before has been written */
export function wantedSince(before: Ruleset, now: Ruleset): Wanted {
  const draft = emptyDraft();
  if (now.chains !== before.chains) {
    for (const name of before.chains.keys()) draft.chains.set(name, undefined);
    for (const [name, chain] of now.chains) draft.chains.set(name, chain);
  }
  const keys = differences(before.fragments, now.fragments);
  for (const key of keys) remove(draft, before.fragments.get(key));
  for (const key of keys) add(draft, now.fragments.get(key));
  keepShared(draft, now);
  for (const [key, isThere] of namesThatDiffer(before.hairpins, now.hairpins))
    setElement(draft, HAIRPIN_CONNECTIONS, key, isThere ? '' : undefined);
  for (const [map, isThere] of namesThatDiffer(before.maps, now.maps))
    draft.sets.set(map, isThere ? endpointsDeclaration(map, now.family) : undefined);
  return draft;
}

function add({ chains, sets, ...draft }: Draft, fragment = NOTHING): void {
  for (const [name, rules] of fragment.chains) chains.set(name, { hook: '', rules });
  for (const [name, declaration] of fragment.sets) sets.set(name, declaration);
  for (const { set, key, value } of fragment.elements) setElement(draft, set, key, value);
}

function remove({ chains, sets, ...draft }: Draft, fragment = NOTHING): void {
  for (const [name] of fragment.chains) chains.set(name, undefined);
  for (const [name] of fragment.sets) sets.set(name, undefined);
  for (const { set, key } of fragment.elements) setElement(draft, set, key, undefined);
}

/** Two Services may have one ClusterIP, or one that was refused a frontend of another: what one leaves stays another's. */
function keepShared(draft: Draft, { fragments, sets }: Ruleset): void {
  const isLeft = [...draft.elements].some(
    ([set, elements]) => sets.has(set) && [...elements.values()].includes(undefined),
  );
  if (!isLeft) return;
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

/** Those that came, and those that went. */
function* namesThatDiffer(
  before: ReadonlyMap<string, number>,
  now: ReadonlyMap<string, number>,
): Iterable<readonly [name: string, isThere: boolean]> {
  if (before === now) return;
  for (const name of before.keys()) if (!now.has(name)) yield [name, false];
  for (const name of now.keys()) if (!before.has(name)) yield [name, true];
}
