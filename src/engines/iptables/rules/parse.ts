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

/** A table of a text that is being read. */
export interface ScannedTable<Rules> {
  readonly name: string;
  readonly policies: Readonly<Record<string, 'ACCEPT' | 'DROP'>>;
  /** All but the built-in ones, in the order in which they were printed. */
  readonly chains: ReadonlyMap<string, Rules>;
}

interface OpenTable<Rules> extends ScannedTable<Rules> {
  readonly policies: Record<string, 'ACCEPT' | 'DROP'>;
  readonly chains: Map<string, Rules>;
}

/** What becomes of the lines that are rules. */
export interface Scanner<Rules> {
  /** Of a chain that was declared. */
  readonly empty: () => Rules;
  /** @returns why the rule cannot be read; undefined if it can */
  readonly onRule: (line: string, table: ScannedTable<Rules>, at: number) => string | undefined;
}

export type Scanned<Rules> =
  | { readonly ok: true; readonly tables: readonly ScannedTable<Rules>[] }
  | { readonly ok: false; readonly line: number; readonly reason: string };

interface Reading<Rules> {
  readonly scanner: Scanner<Rules>;
  open: OpenTable<Rules> | undefined;
  readonly tables: OpenTable<Rules>[];
}

/** Tables and chains; rules are left to the scanner. */
export function scanTables<Rules>(text: string, scanner: Scanner<Rules>): Scanned<Rules> {
  const reading: Reading<Rules> = { scanner, open: undefined, tables: [] };
  let number = 0;
  // Not split: of 400,000 lines, one is needed at a time.
  for (let at = 0; at <= text.length; ) {
    const end = text.indexOf('\n', at);
    const line = text.slice(at, end < 0 ? text.length : end);
    number += 1;
    const reason = readLine(line, at, reading);
    if (reason !== undefined) return { ok: false, line: number, reason };
    at += line.length + 1;
  }
  if (reading.open === undefined) return { ok: true, tables: reading.tables };
  const reason = `table ${reading.open.name} has no COMMIT: the text was cut off`;
  return { ok: false, line: number, reason };
}

export function parseTables(text: string): ParsedTables {
  const jumps = new Map<unknown, Jump[]>();
  const found = scanTables<Rule[]>(text, {
    empty: () => [],
    onRule: (line, table) => {
      const read = parseLine(line);
      if (!read.ok) return read.reason;
      const known = jumps.get(table) ?? [];
      jumps.set(table, known);
      return addRule(read, table, known);
    },
  });
  if (!found.ok) return found;
  const tables = found.tables.map((table): ParsedTable => {
    const { name, policies, chains } = table;
    return {
      ...{ name, policies, jumps: jumps.get(table) ?? [] },
      chains: [...chains].map(([chain, rules]) => ({ name: chain, rules })),
    };
  });
  return { ok: true, tables };
}

/** @returns why the line cannot be read; undefined if it can */
function readLine<Rules>(line: string, at: number, reading: Reading<Rules>): string | undefined {
  if (line.startsWith('#') || line.trim() === '') return undefined;
  if (line.startsWith('*')) return openTable(line.slice(1).trim(), reading);
  const { open, scanner } = reading;
  if (open === undefined) return `${line} is in no table`;
  if (line.startsWith(':')) return declareChain(line, open, scanner.empty);
  if (line.trim() !== 'COMMIT') return scanner.onRule(line, open, at);
  reading.tables.push(open);
  reading.open = undefined;
  return undefined;
}

function openTable<Rules>(name: string, reading: Reading<Rules>): string | undefined {
  if (reading.open !== undefined) return `table ${reading.open.name} has no COMMIT before *${name}`;
  if (!/^[a-z]+$/.test(name)) return `*${name} names no table`;
  if (reading.tables.some((table) => table.name === name)) return `table ${name} comes twice`;
  reading.open = { name, policies: {}, chains: new Map() };
  return undefined;
}

/** `:INPUT ACCEPT [0:0]`, `:KUBE-SERVICES - [0:0]`; iptables-restore takes them without counters, too. */
function declareChain<Rules>(
  line: string,
  { name: table, policies, chains }: OpenTable<Rules>,
  empty: () => Rules,
): string | undefined {
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
  else chains.set(name, empty());
  return undefined;
}

const COUNTERS = /^\[\d+:\d+\]$/;

export type ParsedLine =
  | { readonly ok: true; readonly chain: string; readonly rule: Rule }
  | { readonly ok: false; readonly reason: string };

/** `-A KUBE-SERVICES -d 10.96.0.10/32 -j KUBE-SVC-X`, perhaps with counters before it. */
export function parseLine(line: string): ParsedLine {
  const read = wordsOf(line);
  if (!read.ok) return read;
  const words = COUNTERS.test(read.words[0]?.raw ?? '') ? read.words.slice(1) : read.words;
  const [command, chain, ...rest] = words;
  if (command?.raw !== '-A') {
    const reason = `${command?.raw ?? line} is no command that iptables-save prints`;
    return { ok: false, reason };
  }
  if (chain === undefined) return { ok: false, reason: '-A names no chain' };
  const parsed = parseRule(rest);
  if (!parsed.ok) return { ok: false, reason: `-A ${chain.text}: ${parsed.reason}` };
  return { ok: true, chain: chain.text, rule: parsed.rule };
}

/** Why a rule cannot be in the chain. */
export function undeclared({ name, chains }: ScannedTable<unknown>, chain: string) {
  return chains.has(chain) || BUILT_IN.has(chain)
    ? undefined
    : `-A ${chain}: table ${name} has not declared that chain`;
}

function addRule(
  { chain, rule }: Extract<ParsedLine, { readonly ok: true }>,
  table: ScannedTable<Rule[]>,
  jumps: Jump[],
): string | undefined {
  const rules = table.chains.get(chain);
  if (rules === undefined) {
    const reason = undeclared(table, chain);
    if (reason === undefined) jumps.push({ from: chain, rule });
    return reason;
  }
  rules.push(rule);
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
