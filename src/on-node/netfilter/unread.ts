// SPDX-License-Identifier: Apache-2.0
// Filters that the kernel has and no program of the node has printed: that there are none is not said then. Pure.
import { couldNotTell } from '../could-not-tell.ts';
import type { Finding } from '../finding.ts';
import { listed } from '../topics/listed.ts';
import { isFilter, isOfIptables, isSaved } from './nft.ts';

export interface Unread {
  readonly topic: 'forward' | 'host-firewall';
  /** That would print it: `nft`, `ip6tables-legacy-save`. */
  readonly program: string;
  /** `chain main of table inet site`. */
  readonly what: string;
}

type Chain = Readonly<Record<'family' | 'table' | 'name' | 'type' | 'hook', string>> & {
  readonly prio: number;
};

/** @param chains of the kernel, where nft has printed nothing @param saved families that iptables-nft-save has printed */
export const unreadChains = (
  chains: readonly Chain[],
  saved: ReadonlySet<string>,
): readonly Unread[] =>
  (['forward', 'prerouting'] as const).flatMap((hook) =>
    chains
      .filter((chain) => isFilter({ ...chain }, hook) && !isSaved({ ...chain }, saved))
      .map((chain) => ({
        topic: hook === 'forward' ? ('forward' as const) : ('host-firewall' as const),
        program: programOf(chain),
        what: `chain ${chain.name} of table ${chain.family} ${chain.table}`,
      })),
  );

const programOf = (chain: Chain): string => {
  if (!isOfIptables({ ...chain })) return 'nft';
  return chain.family === 'ip6' ? 'ip6tables-nft-save' : 'iptables-nft-save';
};

/** @param tables of iptables-legacy that are in use */
export const unreadTables = (program: string, tables: readonly string[]): readonly Unread[] =>
  tables.flatMap((table) => {
    const what = `table ${table}`;
    return [
      ...(table === 'raw' ? [] : [{ topic: 'forward' as const, program, what }]),
      ...(table === 'filter' ? [] : [{ topic: 'host-firewall' as const, program, what }]),
    ];
  });

/** One for each topic and program. */
export function unreadFindings(unread: readonly Unread[]): readonly Finding[] {
  const found = new Map<string, Finding>();
  for (const { topic, program } of unread) {
    const own = unread.filter((one) => one.topic === topic && one.program === program);
    found.set(`${topic} ${program}`, findingOf(topic, program, own));
  }
  return [...found.values()];
}

const findingOf = (topic: Unread['topic'], program: string, unread: readonly Unread[]): Finding => {
  const whats = listed(unread.map(({ what }) => what));
  return couldNotTell(topic, `${whats} cannot be read: ${program} is missing or fails`, {
    consequence: CONSEQUENCES[topic],
    advice: `install ${program === 'nft' ? 'nftables' : 'iptables'} in the agent's container, or on the node where it runs`,
  });
};

const CONSEQUENCES = {
  forward: 'a filter there may drop packets of Services to pods',
  'host-firewall': 'a NodePort that a filter there closes may be open',
} as const;
