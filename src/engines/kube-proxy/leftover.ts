// SPDX-License-Identifier: Apache-2.0
// What kube-proxy leaves in a network namespace when it stops, as values: read by what the tools list, shown as rows,
// removed by commands. Pure. Each file of this folder knows one kind of it.

export type LeftoverKind = 'jump' | 'chain' | 'table' | 'ipset' | 'virtual server' | 'device';

export interface Leftover {
  readonly kind: LeftoverKind;
  /** Where it is: `iptables-legacy IPv4 nat`, `nftables`, `ipvs`. */
  readonly where: string;
  /** `PREROUTING -> KUBE-SERVICES`, `ip kube-proxy`, `TCP 10.96.0.10:80`. */
  readonly what: string;
  /** Rules in it, entries, servers or addresses; 1 for a jump. */
  readonly count: number;
}

/** One command that removes some of it. */
export interface RemovalStep {
  readonly program: string;
  readonly args: readonly string[];
  readonly stdin?: string;
  /** A failure that ends by itself, in what the program prints. */
  readonly retryWhile?: RegExp;
  /** Not run if this program has failed before: it removes what tells whose the rest is. */
  readonly after?: string;
}

/** Found, but not to be removed. */
export interface Kept {
  readonly where: string;
  readonly what: string;
  readonly reason: string;
}

export interface LeftoversFound {
  readonly leftovers: readonly Leftover[];
  readonly kept: readonly Kept[];
}

const PLURALS: Readonly<Record<LeftoverKind, string>> = {
  jump: 'jumps',
  chain: 'chains',
  table: 'tables',
  ipset: 'ipsets',
  'virtual server': 'virtual servers',
  device: 'devices',
};

/** `14 jumps, 36 chains with 72 rules`; '' if there is nothing. */
export function leftoversText(leftovers: readonly Leftover[]): string {
  return Object.entries(PLURALS)
    .flatMap(([kind, plural]) => {
      const some = leftovers.filter((leftover) => leftover.kind === kind);
      if (some.length === 0) return [];
      const text = `${some.length} ${some.length === 1 ? kind : plural}`;
      return [kind === 'chain' ? `${text} with ${rulesText(some)}` : text];
    })
    .join(', ');
}

function rulesText(chains: readonly Leftover[]): string {
  const rules = chains.reduce((sum, { count }) => sum + count, 0);
  return `${rules} ${rules === 1 ? 'rule' : 'rules'}`;
}
