// SPDX-License-Identifier: Apache-2.0
// Whose KUBE- chains these are: a kube-proxy's, or those of fairlead's iptables engine, which serve or are only kept
// for connections that they translated. Tables that somebody has flushed say nothing; the others do.

import type { TableName } from '../iptables/rules/types.ts';
import { type HeldTable, type HeldTables, rulesIn } from '../iptables/state/diff/text.ts';
import { isFairleads, isKubeProxys, OF_FAIRLEAD, targetOf } from './chains.ts';

export type Owner = 'fairlead' | 'fairlead, retired' | 'other';

const NONE: HeldTable = new Map();
const MARKED: readonly TableName[] = ['filter', 'nat'];

/** kube-proxy, which has taken the chains over, leaves ours without a jump. */
export function ownerOf(held: HeldTables): Owner {
  const tables = MARKED.map((name) => held.get(name) ?? NONE);
  if (tables.some(isFairleads)) return 'fairlead';
  const isMarked = tables.some((table) => table.has(OF_FAIRLEAD));
  return isMarked && !hasRulesOfKubeProxy(held) ? 'fairlead, retired' : 'other';
}

/** New connections meet our rules. */
export const isServing = (held: HeldTables): boolean =>
  ownerOf(held) === 'fairlead' &&
  MARKED.some((name) =>
    ['PREROUTING', 'OUTPUT'].some((chain) => jumpsToServices(held.get(name)?.get(chain))),
  );

/** Whoever wrote the chains: a firewall that was loaded anew has flushed the jumps to them, and left them. */
export const isReached = (held: HeldTables): boolean =>
  ['PREROUTING', 'OUTPUT'].every((chain) => jumpsToServices(held.get('nat')?.get(chain)));

const jumpsToServices = (rules = ''): boolean =>
  rulesIn(rules).some((rule) => targetOf(rule) === 'KUBE-SERVICES');

/** KUBE-FORWARD alone is what stays of ours for connections; see keepingTracked(). */
function hasRulesOfKubeProxy(held: HeldTables): boolean {
  const filter = held.get('filter') ?? NONE;
  if (filter.has('KUBE-SERVICES') && (filter.get('KUBE-FORWARD') ?? '') !== '') return true;
  return [...(held.get('nat') ?? NONE)].some(
    ([chain, text]) => text !== '' && isKubeProxys('nat', chain),
  );
}

/** Of fairlead and kube-proxy alike, in all tables. */
export const proxyChains = (held: HeldTables): readonly string[] =>
  [...held].flatMap(([name, table]) =>
    [...table.keys()].filter((chain) => isKubeProxys(name, chain)),
  );
