// SPDX-License-Identifier: Apache-2.0
// Which rules --engine auto writes where eBPF does not serve: those of nftables, unless the node already uses iptables.
// Where two lists translate, one hides the other's Services; and only iptables accepts what its own filter drops. Pure.
//   chooseRules({ kubeProxy: 'iptables' }, { iptables: ['IPv4'], nftables: ['IPv4', 'IPv6'] })
//     -> { engine: 'iptables', why: ['rules of kube-proxy in iptables serve this node'] }
import type { Family } from '../model/types.ts';

export type RulesEngine = 'iptables' | 'nftables';

/** What a start finds in the network namespace of the node. */
export interface RulesInUse {
  /** Rules of an earlier fairlead that serve: a restart goes on with them. */
  readonly own?: RulesEngine | undefined;
  readonly kubeProxy?: RulesEngine | undefined;
  /** iptables-legacy has a table nat: of a container network, or of an older kube-proxy. */
  readonly hasLegacyNat?: boolean;
  /** iptables drops what it forwards by default, as Docker sets it, or a filter of the node is in the way of eBPF. */
  readonly isFiltered?: boolean;
}

/** The families that an engine can serve, or why it can serve none. */
export type Works = readonly Family[] | { readonly reason: string };

export interface ChosenRules {
  readonly engine: RulesEngine;
  /** Why it is not nftables or, where the node uses iptables, why it is. */
  readonly why: readonly string[];
}

/** @returns undefined: nothing here asks for iptables, so nftables is tried first */
export function reasonForIptables(inUse: RulesInUse): string | undefined {
  const { own, kubeProxy, hasLegacyNat, isFiltered } = inUse;
  if (isFiltered === true) return 'only rules of iptables accept what its filters drop';
  const used = own ?? kubeProxy;
  if (used === 'nftables') return undefined;
  if (used === 'iptables') {
    return `rules of ${own === undefined ? 'kube-proxy' : 'fairlead'} in iptables serve this node`;
  }
  return hasLegacyNat === true ? 'iptables-legacy translates addresses on this node' : undefined;
}

/** @returns undefined: neither works */
export function chooseRules(
  inUse: RulesInUse,
  { iptables, nftables }: Readonly<Record<RulesEngine, Works>>,
): ChosenRules | undefined {
  const why = reasonForIptables(inUse);
  if ('reason' in iptables) {
    if ('reason' in nftables) return undefined;
    return { engine: 'nftables', why: why === undefined ? [] : [`iptables: ${iptables.reason}`] };
  }
  if (why !== undefined) return { engine: 'iptables', why: [why] };
  if ('reason' in nftables) return { engine: 'iptables', why: [`nftables: ${nftables.reason}`] };
  const more = iptables.filter((family) => !nftables.includes(family));
  return more.length === 0
    ? { engine: 'nftables', why: [] }
    : { engine: 'iptables', why: [`nftables cannot serve ${more.join(' and ')} on this node`] };
}
