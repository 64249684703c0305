// SPDX-License-Identifier: Apache-2.0
// What iptables-save [-c] and ip6tables-save print, of iptables-nft and iptables-legacy, -> tables of chains of rules.
// Nothing is lost but counters: matches and targets that types.ts does not know are kept as printed. Text that is not
// theirs, or that was cut off, is an error with its line.

import { type Group, groupsOf } from './groups.ts';
import { readMatch } from './parse-match.ts';
import type { Chain, Jump, Rule, Target } from './types.ts';
import { type Word, wordsOf } from './words.ts';

export interface ParsedTable {
  /** Also tables that are never rendered, such as raw. */
  readonly name: string;
  /** Of the built-in chains, as far as they were printed. */
  readonly policies: Readonly<Record<string, 'ACCEPT' | 'DROP'>>;
  /** All but the built-in ones, in the order in which they were printed. */
  readonly chains: readonly Chain[];
  /** All rules of the built-in chains, of each chain in order. */
  readonly jumps: readonly Jump[];
}

export type ParsedTables =
  | { readonly ok: true; readonly tables: readonly ParsedTable[] }
  | { readonly ok: false; readonly line: number; readonly reason: string };

/** Chains of the kernel, which exist always. */
export const BUILT_IN: ReadonlySet<string> = new Set([
  ...['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
]);

interface OpenTable {
  readonly name: string;
  readonly policies: Record<string, 'ACCEPT' | 'DROP'>;
  readonly chains: Map<string, Rule[]>;
  readonly jumps: Jump[];
}

type OnRule = (rule: Rule, line: string) => void;

interface Reading {
  readonly onRule: OnRule | undefined;
  open: OpenTable | undefined;
  readonly tables: ParsedTable[];
}

/** @param onRule is told the line of each rule, as printed */
export function parseTables(text: string, onRule?: OnRule): ParsedTables {
  const reading: Reading = { open: undefined, tables: [], onRule };
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    const reason = readLine(line, reading);
    if (reason !== undefined) return { ok: false, line: index + 1, reason };
  }
  if (reading.open === undefined) return { ok: true, tables: reading.tables };
  const reason = `table ${reading.open.name} has no COMMIT: the text was cut off`;
  return { ok: false, line: lines.length, reason };
}

/** @returns why the line cannot be read; undefined if it can */
function readLine(line: string, reading: Reading): string | undefined {
  if (line.trim() === '' || line.startsWith('#')) return undefined;
  if (line.startsWith('*')) return openTable(line.slice(1).trim(), reading);
  const { open } = reading;
  if (open === undefined) return `${line} is in no table`;
  if (line.trim() === 'COMMIT') {
    reading.tables.push(closed(open));
    reading.open = undefined;
    return undefined;
  }
  return line.startsWith(':') ? declareChain(line, open) : readRule(line, open, reading.onRule);
}

const closed = ({ name, policies, chains, jumps }: OpenTable): ParsedTable => ({
  name,
  policies,
  chains: [...chains].map(([chain, rules]) => ({ name: chain, rules })),
  jumps,
});

function openTable(name: string, reading: Reading): string | undefined {
  if (reading.open !== undefined) return `table ${reading.open.name} has no COMMIT before *${name}`;
  if (!/^[a-z]+$/.test(name)) return `*${name} names no table`;
  if (reading.tables.some((table) => table.name === name)) return `table ${name} comes twice`;
  reading.open = { name, policies: {}, chains: new Map(), jumps: [] };
  return undefined;
}

/** `:INPUT ACCEPT [0:0]`, `:KUBE-SERVICES - [0:0]`; iptables-restore takes them without counters, too. */
function declareChain(line: string, { name: table, policies, chains }: OpenTable) {
  const found = /^:(\S+) (ACCEPT|DROP|-)(?: \[\d+:\d+\])?\s*$/u.exec(line);
  if (found === null) return `${line} declares no chain: it must be like :KUBE-SERVICES - [0:0]`;
  const [, name = '', policy] = found;
  if (Object.hasOwn(policies, name) || chains.has(name))
    return `chain ${name} of table ${table} comes twice`;
  if (BUILT_IN.has(name) === (policy === '-')) {
    return policy === '-'
      ? `chain ${name} is built in, and must have a policy`
      : `chain ${name} has policy ${policy}, but only built-in chains have one`;
  }
  if (policy === 'ACCEPT' || policy === 'DROP') policies[name] = policy;
  else chains.set(name, []);
  return undefined;
}

const COUNTERS = /^\[\d+:\d+\]$/;

function readRule(line: string, open: OpenTable, onRule: OnRule | undefined): string | undefined {
  const read = wordsOf(line);
  if (!read.ok) return read.reason;
  const words = COUNTERS.test(read.words[0]?.raw ?? '') ? read.words.slice(1) : read.words;
  const [command, chain, ...rest] = words;
  if (command?.raw !== '-A')
    return `${command?.raw ?? line} is no command that iptables-save prints`;
  if (chain === undefined) return '-A names no chain';
  const parsed = parseRule(rest);
  if (!parsed.ok) return `-A ${chain.text}: ${parsed.reason}`;
  onRule?.(parsed.rule, line);
  return addRule(chain.text, parsed.rule, open);
}

function addRule(chain: string, rule: Rule, open: OpenTable): string | undefined {
  const rules = open.chains.get(chain);
  if (rules === undefined && !BUILT_IN.has(chain))
    return `-A ${chain}: table ${open.name} has not declared that chain`;
  if (rules === undefined) open.jumps.push({ from: chain, rule });
  else rules.push(rule);
  return undefined;
}

// The words after `-A CHAIN` -> a rule. A group of words that says exactly what a field of a rule can say becomes that
// field; all others go into `other`, as printed and in their order.
type ParsedRule =
  | { readonly ok: true; readonly rule: Rule }
  | { readonly ok: false; readonly reason: string };

/** Writable while it is put together. */
type Draft = { -readonly [Field in keyof Rule]: Rule[Field] };

function parseRule(words: readonly Word[]): ParsedRule {
  const groups = groupsOf(words);
  if (typeof groups === 'string') return { ok: false, reason: groups };
  const draft: Draft = {};
  const others: string[] = [];
  for (const group of groups) {
    const found = fieldsOf(group, draft);
    if (found === undefined || Object.keys(found).some((field) => Object.hasOwn(draft, field)))
      others.push(group.raw);
    else Object.assign(draft, found);
  }
  if (others.length > 0) draft.other = others.join(' ');
  return { ok: true, rule: draft };
}

/** What the group says, if fields of a rule can say it. */
const fieldsOf = (group: Group, draft: Draft): Partial<Rule> | undefined =>
  group.option === '-j' ? readTarget(group) : readMatch(group, draft);

const REFUSALS: ReadonlySet<string> = new Set([
  ...['icmp-port-unreachable', 'icmp6-port-unreachable'],
]);
const XMARK = /^(0x[0-9a-f]{1,8})\/(0x[0-9a-f]{1,8})$/;

function readTarget({ isNot, words }: Group): Pick<Rule, 'target'> | undefined {
  const [name = '', ...options] = words.map(({ text }) => text);
  const target = isNot ? undefined : targetOf(name, options);
  return target === undefined ? undefined : { target };
}

function targetOf(name: string, options: readonly string[]): Target | undefined {
  const [option, value = ''] = options;
  switch (`${name} ${option ?? ''}`) {
    case 'REJECT --reject-with':
      return REFUSALS.has(value) && options.length === 2 ? { kind: 'reject' } : undefined;
    case 'DNAT --to-destination':
      return options.length === 2 ? { kind: 'dnat', to: value } : undefined;
    case 'MASQUERADE ':
      return { kind: 'masquerade', isRandomFully: false };
    case 'MASQUERADE --random-fully':
      return options.length === 1 ? { kind: 'masquerade', isRandomFully: true } : undefined;
    case 'MARK --set-xmark': {
      const [, bits, mask] = XMARK.exec(value) ?? [];
      if (bits === undefined || options.length !== 2) return undefined;
      return { kind: 'set-mark', value: Number(bits), mask: Number(mask) };
    }
    default:
      return options.length === 0 ? { kind: 'jump', chain: name } : undefined;
  }
}
