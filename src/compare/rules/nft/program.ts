// SPDX-License-Identifier: Apache-2.0
// What `nft -y list ruleset` prints -> the rules of one family. Tables that iptables has made are left out: iptables-save
// prints them as they were written.
import type { Family } from '../../../model/types.ts';
import { LazyChains } from '../lazy-chains.ts';
import { type Range, spanOf } from '../ranges.ts';
import { surveyOf } from '../survey.ts';
import type { BaseChain, Elements, Hook, Program, Rule, Verdict } from '../types.ts';
import { type NftContext, PROTOCOLS, readRule, verdictOf } from './statements.ts';
import { elementsOf, readTables, type TextChain, type TextSet, type TextTable } from './tables.ts';

const OF_IPTABLES = /^ip6? (raw|mangle|nat|filter|security) /;
const HOOK = /^type (\S+) hook (\S+) (?:device \S+ )?priority (-?\w+)(?: ([+-]) (\d+))?;/;
const POLICY_DROP = /policy drop;/;
const NAMED: Readonly<Record<string, number>> = {
  ...{ raw: -300, mangle: -150, dstnat: -100, filter: 0, security: 50, srcnat: 100 },
};

export interface NftTables {
  /** Its rules count for packets that are translated, too: `ip kube-proxy`. */
  readonly isProxys: (table: string) => boolean;
  /** Another proxy's. */
  readonly isLeftOut: (table: string) => boolean;
  /** Chains that iptables-save has printed; absent: all of tables with its names. @param chain `ip nat PREROUTING` */
  readonly isOfIptables?: (chain: string) => boolean;
}

export function readNft(
  family: Family,
  printed: string,
  { isProxys, isLeftOut, isOfIptables = () => true }: NftTables,
): Program {
  const sources = new Map<string, ChainText>();
  const sets = new Map<string, Elements>();
  const hooks = { prerouting: [], input: [], forward: [], output: [], postrouting: [] } as {
    readonly [Name in Hook]: BaseChain[];
  };
  const own = family === 'IPv4' ? 'ip' : 'ip6';
  for (const table of readTables(printed)) {
    const name = `${table.family} ${table.name}`;
    if ((table.family !== own && table.family !== 'inet') || isLeftOut(name)) continue;
    const isRead = (chain: string): boolean => !OF_IPTABLES.test(chain) || !isOfIptables(chain);
    const chains = table.chains.filter((chain) => isRead(`${name} ${chain.name}`));
    const about = { family, name, isForeign: !isProxys(name) };
    if (chains.length > 0) addTable({ ...table, chains }, about, { sources, sets, hooks });
  }
  for (const list of Object.values(hooks)) list.sort((a, b) => a.priority - b.priority);
  const chains = new LazyChains(sources, rulesOf);
  return { family, hooks, chains, sets, survey: surveyOf(chains.values(), sets) };
}

interface ChainText {
  readonly chain: TextChain;
  readonly context: NftContext;
  readonly isForeign: boolean;
}

function rulesOf(key: string, { chain, context, isForeign }: ChainText): readonly Rule[] {
  const rules = chain.rules.map((line) => ({
    ...readRule(line, context),
    text: `${key}: ${line}`,
    isForeign,
  }));
  if (!POLICY_DROP.test(chain.hook)) return rules;
  return [...rules, { ...DROP, text: `${key}: ${chain.hook}`, isForeign }];
}

interface Building {
  readonly sources: Map<string, ChainText>;
  readonly sets: Map<string, Elements>;
  readonly hooks: Readonly<Record<Hook, BaseChain[]>>;
}

function addTable(
  table: TextTable,
  about: { readonly family: Family; readonly name: string; readonly isForeign: boolean },
  { sources, sets, hooks }: Building,
): void {
  const { family, name, isForeign } = about;
  for (const set of table.sets.values())
    sets.set(`${name} ${set.name}`, elementsIn(set, name, isForeign));
  const context = { family, table: name, sets: table.sets };
  for (const chain of table.chains) {
    const key = `${name} ${chain.name}`;
    sources.set(key, { chain, context, isForeign });
    const [, type, hook, base = '', sign = '+', distance = '0'] = HOOK.exec(chain.hook) ?? [];
    if (!isHook(hook) || table.isDormant) continue;
    const priority = priorityOf(base) + Number(`${sign}${distance}`);
    hooks[hook].push({ priority, isNat: type === 'nat', chain: key });
  }
}

const isHook = (text: string | undefined): text is Hook =>
  text !== undefined && ['prerouting', 'input', 'forward', 'output', 'postrouting'].includes(text);

const DROP: Pick<Rule, 'tests' | 'actions'> = { tests: [], actions: [{ kind: 'drop' }] };

/** `-100`, `dstnat` */
const priorityOf = (text: string): number => NAMED[text] ?? (Number.parseInt(text, 10) || 0);

const isEndOfKey = (word: string): boolean => END_OF_KEY.has(word);
const END_OF_KEY: ReadonlySet<string> = new Set([
  ...[':', 'comment', 'counter', 'timeout', 'expires'],
]);

function elementsIn(set: TextSet, table: string, isForeign: boolean): Elements {
  const exact = new Map<string, Verdict | undefined>();
  const ranges: Range[] = [];
  const unread: Elements['unread'][number][] = [];
  for (const words of set.isDynamic ? [] : elementsOf(set)) {
    const colon = words.indexOf(':');
    const end = words.findIndex(isEndOfKey);
    const parts = words.slice(0, end < 0 ? words.length : end).filter((word) => word !== '.');
    const [only = ''] = parts;
    const verdict = colon < 0 ? undefined : verdictOf(words.slice(colon + 1), table);
    const isRange = (part: string): boolean => /^[\da-f.:]+[/-]|-\d/.test(part);
    const range = parts.length === 1 && isRange(only) ? spanOf(only) : undefined;
    const isUnread = words.includes('timeout') || (parts.length > 1 && parts.some(isRange));
    if (isUnread) unread.push({ text: `${table} ${set.name}: ${words.join(' ')}`, isForeign });
    if (range === undefined)
      exact.set(parts.map((part) => PROTOCOLS[part] ?? part).join(' '), verdict);
    else ranges.push(range);
  }
  return { exact, ranges, unread };
}
