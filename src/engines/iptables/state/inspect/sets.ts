// SPDX-License-Identifier: Apache-2.0
// Which backends a chain of nat leads to: for processes of the node, and for clients from outside.
import type { FrontendView } from '../../../snapshot.ts';
import type { Rule } from '../../rules/types.ts';

export type SetView = Pick<FrontendView, 'internal' | 'external' | 'affinitySeconds'>;

export interface BackendSets {
  /** @param chain KUBE-SVC-, KUBE-SVL-, KUBE-EXT- or KUBE-FW- */
  of(chain: string): SetView;
}

type RulesOf = (chain: string) => readonly Rule[];

/** Memory of chains that are read: external frontends of a Service port share theirs. */
export function backendSets(rulesOf: RulesOf): BackendSets {
  const known = new Map<string, SetView>();
  return {
    of(chain) {
      const view = known.get(chain) ?? viewOf(rulesOf, chain);
      known.set(chain, view);
      return view;
    },
  };
}

function viewOf(rulesOf: RulesOf, chain: string): SetView {
  if (!/^KUBE-(?:EXT|FW|XLB)-/.test(chain)) {
    const set = setOf(rulesOf, chain);
    return { internal: set.backends, external: set.backends, affinitySeconds: set.affinitySeconds };
  }
  const internal = followed(rulesOf, chain, true);
  const external = followed(rulesOf, chain, false);
  return {
    internal: internal.backends,
    external: external.backends,
    affinitySeconds: Math.max(internal.affinitySeconds, external.affinitySeconds),
  };
}

interface Set {
  readonly backends: readonly string[];
  readonly affinitySeconds: number;
}

const NOBODY: Set = { backends: [], affinitySeconds: 0 };

/** The first set that such a client is sent to, if source ranges let it through. */
function followed(rulesOf: RulesOf, chain: string, isHost: boolean): Set {
  for (const rule of rulesOf(chain.replace('KUBE-FW-', 'KUBE-EXT-'))) {
    const target = rule.target?.kind === 'jump' ? rule.target.chain : '';
    if (/^KUBE-SV[CL]-/.test(target) && matches(rule, isHost)) return setOf(rulesOf, target);
  }
  return NOBODY;
}

/** Rules for pods name their addresses or their devices. */
function matches({ source, inInterface, isSourceLocal }: Rule, isHost: boolean): boolean {
  if (source !== undefined || inInterface !== undefined) return false;
  return isHost || !isSourceLocal;
}

function setOf(rulesOf: RulesOf, chain: string): Set {
  let affinitySeconds = 0;
  const backends: string[] = [];
  for (const { target, recent } of rulesOf(chain)) {
    if (target?.kind !== 'jump' || !target.chain.startsWith('KUBE-SEP-')) continue;
    if (recent?.action.kind === 'check') affinitySeconds = recent.action.seconds;
    else backends.push(backendOf(rulesOf, target.chain));
  }
  return { backends, affinitySeconds };
}

/** `chain KUBE-SEP-…?` if the chain translates nothing. */
function backendOf(rulesOf: RulesOf, chain: string): string {
  for (const { target } of rulesOf(chain)) if (target?.kind === 'dnat') return target.to;
  return `chain ${chain}?`;
}
