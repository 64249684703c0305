// SPDX-License-Identifier: Apache-2.0
// kube-proxy's tables of nftables: `ip kube-proxy` and `ip6 kube-proxy`, which are its own as a whole.
import type { Family } from '../../model/types.ts';
import type { Kept, LeftoversFound, RemovalStep } from './leftover.ts';

export type NftFamily = 'ip' | 'ip6';
export const NFT_FAMILY: Readonly<Record<Family, NftFamily>> = { IPv4: 'ip', IPv6: 'ip6' };

const TABLE = 'kube-proxy';

/** An object of `nft --json list ruleset`. */
interface NftObject {
  readonly table?: { readonly family: string; readonly name: string };
  readonly chain?: {
    readonly family: string;
    readonly table: string;
    readonly name: string;
    readonly type?: string;
  };
  readonly rule?: { readonly family: string; readonly table: string; readonly expr: unknown };
}

export interface NftTable {
  readonly family: NftFamily;
  readonly rules: number;
  readonly chains: number;
}

export interface NftState {
  readonly tables: readonly NftTable[];
  /** Families with a chain of type nat, or a rule that needs connection tracking, in a table that is not kube-proxy's. */
  readonly othersNat: ReadonlySet<Family>;
  readonly othersTrack: ReadonlySet<Family>;
}

/**
 * @param json of `nft --json --terse list ruleset`
 * @param own the table of which `tables` tells
 */
export function parseNft(json: string, own = TABLE): NftState {
  const { nftables } = JSON.parse(json) as { readonly nftables: readonly NftObject[] };
  const isOwn = (family: string, name: string): boolean => name === own && /^ip6?$/.test(family);
  const count = (kind: 'chain' | 'rule', family: string): number =>
    nftables.filter(
      ({ [kind]: one }) => one !== undefined && one.family === family && isOwn(family, one.table),
    ).length;
  const tables = nftables.flatMap(({ table }) =>
    table !== undefined && isOwn(table.family, table.name)
      ? [
          {
            family: table.family as NftFamily,
            rules: count('rule', table.family),
            chains: count('chain', table.family),
          },
        ]
      : [],
  );
  const foreign = nftables.filter(({ chain, rule }) => {
    const one = chain ?? rule;
    return one !== undefined && !isOwn(one.family, one.table);
  });
  return {
    tables,
    othersNat: familiesOf(foreign.flatMap(({ chain }) => (chain?.type === 'nat' ? [chain] : []))),
    othersTrack: familiesOf(
      foreign.flatMap(({ rule }) => (rule !== undefined && isTracking(rule.expr) ? [rule] : [])),
    ),
  };
}

/** `{"match": {"left": {"ct": {"key": "state"}}}}`, `{"masquerade": null}`; what iptables has written is `{"xt": …}`. */
const isTracking = (expression: unknown): boolean =>
  /"(?:ct|ct helper|masquerade|snat|dnat|redirect)":/.test(JSON.stringify(expression));

function familiesOf(objects: readonly { readonly family: string }[]): ReadonlySet<Family> {
  return new Set(
    objects.flatMap(({ family }): readonly Family[] => {
      if (family === 'inet') return ['IPv4', 'IPv6'];
      if (family === 'ip') return ['IPv4'];
      return family === 'ip6' ? ['IPv6'] : [];
    }),
  );
}

/** One chain with one rule that lets everything pass: what is left to keep connections translated. */
const isReduced = ({ rules, chains }: NftTable): boolean => rules === 1 && chains === 1;

/** @param needed by connections that kube-proxy has translated; see tracking.ts */
export function nftRows({ tables }: NftState, needed: ReadonlyMap<Family, string>): LeftoversFound {
  const reasonOf = ({ family }: NftTable): string | undefined =>
    needed.get(family === 'ip' ? 'IPv4' : 'IPv6');
  const where = 'nftables';
  return {
    leftovers: tables
      .filter((table) => reasonOf(table) === undefined || !isReduced(table))
      .map(({ family, rules }) => ({
        ...({ kind: 'table', where, what: `${family} ${TABLE}`, count: rules } as const),
      })),
    kept: tables.flatMap((table): readonly Kept[] => {
      const reason = reasonOf(table);
      const what = `table ${table.family} ${TABLE}, with one chain that changes nothing`;
      return reason === undefined ? [] : [{ where, what, reason }];
    }),
  };
}

/** All in one transaction. */
export function nftRemoval(
  { tables }: NftState,
  needed: ReadonlyMap<Family, string>,
): readonly RemovalStep[] {
  if (tables.length === 0) return [];
  const lines = tables.flatMap(({ family }) => [
    `delete table ${family} ${TABLE}`,
    ...(needed.has(family === 'ip' ? 'IPv4' : 'IPv6') ? reducedTable(family) : []),
  ]);
  return [{ program: 'nft', args: ['-f', '-'], stdin: `${lines.join('\n')}\n` }];
}

/** A chain of type nat keeps the translation, a rule with `ct` the tracking of connections. */
export const reducedTable = (family: NftFamily, table = TABLE): readonly string[] => [
  `add table ${family} ${table}`,
  `add chain ${family} ${table} nat-prerouting { type nat hook prerouting priority -100; }`,
  `add rule ${family} ${table} nat-prerouting ct state established`,
];
