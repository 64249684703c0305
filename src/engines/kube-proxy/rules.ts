// SPDX-License-Identifier: Apache-2.0
// kube-proxy's rules in what iptables-save has printed, of one family and one iptables, -> what is to go, what has to stay
// because rules of others need it, and the input of iptables-restore --noflush that removes it.

import { BUILT_IN } from '../iptables/rules/parse.ts';
import type { TableName } from '../iptables/rules/types.ts';
import { chunksOf } from '../iptables/state/diff/split.ts';
import { type HeldTable, type HeldTables, rulesIn, TABLES } from '../iptables/state/diff/text.ts';
import { isKubeProxys, isKubeProxysJump, OF_FAIRLEAD, targetOf } from './chains.ts';
import type { Kept, LeftoversFound } from './leftover.ts';
import { ownerOf } from './own-rules.ts';

export interface RuleLeftovers {
  readonly tables: readonly TableLeftovers[];
  readonly kept: readonly Omit<Kept, 'where'>[];
  /** They are what fairlead's own iptables engine has programmed: nothing is kube-proxy's. */
  readonly isFairleads: boolean;
}

export interface TableLeftovers {
  readonly name: TableName;
  readonly jumps: readonly Jump[];
  readonly chains: readonly { readonly name: string; readonly rules: number }[];
}

export interface Jump {
  readonly from: string;
  readonly to: string;
  readonly rule: string;
}

/** A packet is marked in one to be masqueraded in the other: who uses the mark needs both. */
const MARKS = 'KUBE-MARK-MASQ';
const MASQUERADES = 'KUBE-POSTROUTING';

/** @param of whose chains are meant */
export function ruleLeftovers(
  held: HeldTables,
  of: 'kube-proxy' | 'fairlead' = 'kube-proxy',
): RuleLeftovers {
  const owner = ownerOf(held);
  const isMeant = (owner === 'other') === (of === 'kube-proxy');
  if (!isMeant) return { tables: [], kept: [], isFairleads: owner !== 'other' };
  return anyLeftovers(held);
}

/** All chains that kube-proxy and fairlead have alike, whosever they are. */
export const anyLeftovers = (held: HeldTables): RuleLeftovers => {
  const found = TABLES.map((name) => leftoversIn(name, held.get(name) ?? new Map()));
  return {
    tables: found
      .map(({ table }) => table)
      .filter(({ jumps, chains }) => jumps.length + chains.length > 0),
    kept: found.flatMap(({ kept }) => kept),
    isFairleads: false,
  };
};

function leftoversIn(
  name: TableName,
  held: HeldTable,
): { readonly table: TableLeftovers; readonly kept: RuleLeftovers['kept'] } {
  const candidates = [...held.keys()].filter((chain) => isKubeProxys(name, chain));
  const isCandidate = new Set(candidates);
  const references = [...held]
    .filter(([chain]) => !isCandidate.has(chain))
    .flatMap(([from, text]) => rulesIn(text).map((rule) => ({ from, rule, to: targetOf(rule) })))
    .filter((jump): jump is Jump => jump.to !== undefined && isCandidate.has(jump.to));
  const isOwn = ({ from, rule }: Jump): boolean => BUILT_IN.has(from) && isKubeProxysJump(rule);
  const needed = neededBy(
    references.filter((jump) => !isOwn(jump)),
    held,
  );
  return {
    table: {
      name,
      jumps: references.filter((jump) => isOwn(jump) && !needed.has(jump.to)),
      chains: candidates
        .filter((chain) => !needed.has(chain))
        .map((chain) => ({ name: chain, rules: rulesIn(held.get(chain) ?? '').length })),
    },
    kept: [...needed].map(([chain, reason]) => ({ what: `${name} ${chain}`, reason })),
  };
}

/** The chains that rules of others jump to, those that these jump to, and why each is needed. */
function neededBy(foreign: readonly Jump[], held: HeldTable): ReadonlyMap<string, string> {
  const needed = new Map<string, string>();
  const need = (chain: string, reason: string): void => {
    if (needed.has(chain) || !held.has(chain)) return;
    needed.set(chain, reason);
    const because = `${chain} stays`;
    for (const rule of rulesIn(held.get(chain) ?? '')) {
      const target = targetOf(rule);
      if (target !== undefined) need(target, because);
    }
    if (chain === MARKS) need(MASQUERADES, because);
  };
  for (const { from, to, rule } of foreign) need(to, `a rule of ${from} needs it: ${rule}`);
  return needed;
}

/** Has rules with `-m conntrack`, and matches no packet without a jump to it. */
const TRACKS = 'KUBE-FORWARD';

/**
 * @param reason why connections still have to be tracked; see tracking.ts
 * @param marker a chain that stays, too, and says whose it is
 */
export function keepingTracked(
  found: RuleLeftovers,
  reason: string,
  marker?: string,
): RuleLeftovers {
  const isTracker = (table: TableLeftovers, chain: string): boolean =>
    table.name === 'filter' && (chain === TRACKS || chain === marker);
  if (!found.tables.some((table) => table.chains.some(({ name }) => isTracker(table, name)))) {
    return found;
  }
  return {
    ...found,
    tables: found.tables
      .map((table) => ({
        ...table,
        chains: table.chains.filter(({ name }) => !isTracker(table, name)),
      }))
      .filter(({ jumps, chains }) => jumps.length + chains.length > 0),
    kept: [...found.kept, { what: `filter ${TRACKS}, without a jump to it`, reason }],
  };
}

/** Rules that are left when everything else is removed. */
export function remainingRules(held: HeldTables, { tables }: RuleLeftovers): readonly string[] {
  return [...held].flatMap(([name, table]) => {
    const going = tables.find((one) => one.name === name);
    const chains = new Set(going?.chains.map((chain) => chain.name));
    const jumps = new Set(going?.jumps.map(({ from, rule }) => `${from} ${rule}`));
    return [...table]
      .filter(([chain]) => !chains.has(chain))
      .flatMap(([chain, text]) => rulesIn(text).filter((rule) => !jumps.has(`${chain} ${rule}`)));
  });
}

/** @param where `iptables-legacy IPv4` */
export function ruleRows({ tables, kept }: RuleLeftovers, where: string): LeftoversFound {
  return {
    leftovers: tables.flatMap(({ name, jumps, chains }) => [
      ...jumps.map(({ from, to }) => ({
        ...({
          kind: 'jump',
          where: `${where} ${name}`,
          what: `${from} -> ${to}`,
          count: 1,
        } as const),
      })),
      ...chains.map(({ name: chain, rules }) => ({
        ...({ kind: 'chain', where: `${where} ${name}`, what: chain, count: rules } as const),
      })),
    ]),
    kept: kept.map((one) => ({ where, ...one })),
  };
}

/** filter last: its chains tell whose the others are, should this be ended halfway. */
const ORDER: readonly TableName[] = ['nat', 'mangle', 'filter'];
/** They tell whose the other chains are, and go last. */
const TELLING: ReadonlySet<string> = new Set([MARKS, OF_FAIRLEAD]);

/** Without the rules of nat they would refuse what a socket of the node serves: they are left before. */
const REFUSING: ReadonlySet<string> = new Set([
  ...['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-PROXY-FIREWALL', OF_FAIRLEAD],
]);

/**
 * Jumps first, then the chains, emptied before any is removed; '' if there is nothing.
 * @param most chains in one transaction; see CHAINS_AT_ONCE
 */
export function ruleRemoval({ tables }: RuleLeftovers, most = Number.POSITIVE_INFINITY): string {
  const refusing = tables
    .filter(({ name }) => name === 'filter')
    .flatMap(({ jumps }) => jumps.filter(({ to }) => REFUSING.has(to)));
  const first = refusing.length === 0 ? '' : transaction('filter', refusing.map(deleting));
  const others = tables
    .map((table) => ({ ...table, jumps: table.jumps.filter((jump) => !refusing.includes(jump)) }))
    .toSorted((a, b) => ORDER.indexOf(a.name) - ORDER.indexOf(b.name))
    .flatMap((table) => tableRemoval(table, most).map((lines) => transaction(table.name, lines)));
  return [first, ...others].join('');
}

const deleting = ({ from, rule }: Jump): string => `-D ${from} ${rule}`;

const transaction = (name: TableName, lines: readonly string[]): string =>
  [`*${name}`, ...lines, 'COMMIT\n'].join('\n');

function tableRemoval({ jumps, chains }: TableLeftovers, most: number): readonly string[][] {
  const deleted = jumps.map(deleting);
  const names = chains.map(({ name }) => name);
  const emptying = (name: string): string => `:${name} - [0:0]`;
  const removing = (name: string): string => `-X ${name}`;
  if (names.length <= most) return [[...deleted, ...names.map(emptying), ...names.map(removing)]];
  // KUBE-FORWARD before KUBE-SERVICES, without which it looks like kube-proxy's.
  const inTurn = names
    .toSorted()
    .toSorted((a, b) => Number(TELLING.has(a)) - Number(TELLING.has(b)));
  return [
    deleted,
    ...chunksOf(inTurn.map(emptying), most),
    ...chunksOf(inTurn.map(removing), most),
  ].filter((lines) => lines.length > 0);
}
