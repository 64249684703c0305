// SPDX-License-Identifier: Apache-2.0
// What a cleanup removes of fairlead's own rules, in any mix of tables that somebody has flushed.

import type { TableName } from '../iptables/rules/types.ts';
import { type HeldTables, rulesIn } from '../iptables/state/diff/text.ts';
import { OF_FAIRLEAD, targetOf } from './chains.ts';
import { ownerOf, proxyChains } from './own-rules.ts';
import { anyLeftovers, type Jump, type RuleLeftovers, type TableLeftovers } from './rules.ts';

export interface GuardFacts {
  /** Packets from other machines may be routed to loopback addresses (net.ipv4.conf.all.route_localnet). */
  readonly isGuardNeeded: boolean;
}

export function ownLeftovers(held: HeldTables, { isGuardNeeded }: GuardFacts): RuleLeftovers {
  const chains = proxyChains(held);
  // A canary says nothing about who has written it, and serves nobody alone.
  const isOurs =
    ownerOf(held) !== 'other' || chains.every((chain) => chain === 'KUBE-PROXY-CANARY');
  if (!isOurs) return { tables: adoptedByKubeProxy(held), kept: [], isFairleads: true };
  const found = anyLeftovers(held);
  const guard = guardIn(held);
  if (guard === undefined) return found;
  const reason = reasonToStay(held, guard) ?? (isGuardNeeded ? ROUTED : undefined);
  if (reason === undefined) return { ...found, tables: withGuard(found.tables, guard) };
  const isTold = chains.length > 0 || reason === ROUTED;
  const kept = isTold ? [{ what: `filter ${GUARD}`, reason }] : [];
  return { ...found, kept: [...found.kept, ...kept] };
}

/** Only the chains that it does not know. */
const adoptedByKubeProxy = (held: HeldTables): readonly TableLeftovers[] =>
  (['filter', 'nat'] as const satisfies readonly TableName[]).flatMap((name) => {
    const text = held.get(name)?.get(OF_FAIRLEAD);
    if (text === undefined) return [];
    return [{ name, jumps: [], chains: [{ name: OF_FAIRLEAD, rules: rulesIn(text).length }] }];
  });

/** Drops what other machines send to loopback addresses. The kubelet has it, too. */
const GUARD = 'KUBE-FIREWALL';
const GUARD_RULE = '--comment "block incoming localnet connections"';
const ROUTED =
  'net.ipv4.conf.all.route_localnet is 1, so that without it other machines would reach what listens on 127.0.0.1: set it to 0 and run this again';

interface Guard {
  readonly rules: readonly string[];
  readonly jumps: readonly Jump[];
}

function guardIn(held: HeldTables): Guard | undefined {
  const filter = held.get('filter');
  const text = filter?.get(GUARD);
  if (filter === undefined || text === undefined) return undefined;
  const jumps = [...filter].flatMap(([from, rules]) =>
    rulesIn(rules)
      .filter((rule) => targetOf(rule) === GUARD)
      .map((rule) => ({ from, to: GUARD, rule })),
  );
  return { rules: rulesIn(text), jumps };
}

function reasonToStay(held: HeldTables, { rules, jumps }: Guard): string | undefined {
  const hasKubelet = [...held.values()].some(
    (table) => table.has('KUBE-KUBELET-CANARY') || table.has('KUBE-IPTABLES-HINT'),
  );
  if (hasKubelet) return 'the kubelet shares it';
  const foreign = rules.find((rule) => !rule.includes(GUARD_RULE));
  if (foreign !== undefined) return `it has a rule of others: ${foreign}`;
  const needing = jumps.find(
    ({ from, rule }) => !['INPUT', 'OUTPUT'].includes(from) || rule !== `-j ${GUARD}`,
  );
  return needing && `a rule of ${needing.from} needs it: ${needing.rule}`;
}

function withGuard(
  tables: readonly TableLeftovers[],
  { rules, jumps }: Guard,
): readonly TableLeftovers[] {
  const none: TableLeftovers = { name: 'filter', jumps: [], chains: [] };
  const filter = tables.find(({ name }) => name === 'filter') ?? none;
  const guarded = {
    ...filter,
    jumps: [...filter.jumps, ...jumps],
    chains: [...filter.chains, { name: GUARD, rules: rules.length }],
  };
  return [...tables.filter(({ name }) => name !== 'filter'), guarded];
}
