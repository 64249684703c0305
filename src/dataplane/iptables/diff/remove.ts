// SPDX-License-Identifier: Apache-2.0
// What `fairlead cleanup` removes: our chains, and the rules in the chains of others that jump to them.
import type { TableName } from '../rules/types.ts';
import { isOurs } from './ours.ts';
import { type HeldTable, type HeldTables, rulesIn, TABLES } from './text.ts';

/** A chain that kube-proxy does not have: rules beside it were written by us. */
const OF_FAIRLEAD = 'KUBE-CLUSTER-IPS';

export const isWrittenByUs = (held: HeldTables): boolean =>
  held.get('filter')?.has(OF_FAIRLEAD) === true;

export interface Removal {
  readonly table: TableName;
  readonly chains: readonly string[];
  readonly jumps: readonly { readonly from: string; readonly rule: string }[];
}

/** A kube-proxy that runs after us takes over all chains but that one, which nothing jumps to then. */
const isKubeProxys = (held: HeldTables): boolean => {
  const filter = held.get('filter') ?? new Map<string, string>();
  const isUsed = [...filter.values()].some((rules) => rules.includes(` -j ${OF_FAIRLEAD}`));
  return filter.has('KUBE-SERVICES') && !isUsed;
};

export const removals = (held: HeldTables): readonly Removal[] =>
  isKubeProxys(held) ? [{ table: 'filter', chains: [OF_FAIRLEAD], jumps: [] }] : allRemovals(held);

const allRemovals = (held: HeldTables): readonly Removal[] =>
  TABLES.flatMap((name) => {
    const removal = removalOf(name, held.get(name) ?? new Map());
    return removal.chains.length + removal.jumps.length === 0 ? [] : [removal];
  });

function removalOf(table: TableName, held: HeldTable): Removal {
  const chains = [...held.keys()].filter((chain) => isOurs(table, chain));
  const ours = new Set(chains);
  const isJump = (rule: string): boolean => ours.has(/(?:^| )-[jg] (\S+)/.exec(rule)?.[1] ?? '');
  const jumps = [...held]
    .filter(([chain]) => !ours.has(chain))
    .flatMap(([from, text]) => rulesIn(text).map((rule) => ({ from, rule })))
    .filter(({ rule }) => isJump(rule));
  return { table, chains, jumps };
}

/** The last table first: nothing is translated any more while the filter still refuses. */
export const removalInput = (all: readonly Removal[]): string =>
  all
    .toReversed()
    .map(({ table, chains, jumps }) =>
      [
        `*${table}`,
        ...chains.map((chain) => `:${chain} - [0:0]`),
        ...jumps.map(({ from, rule }) => `-D ${from} ${rule}`),
        ...chains.map((chain) => `-X ${chain}`),
        'COMMIT\n',
      ].join('\n'),
    )
    .join('');
