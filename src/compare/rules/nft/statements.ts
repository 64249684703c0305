// SPDX-License-Identifier: Apache-2.0
// One rule as `nft -y list` prints it -> tests and actions. Whatever is not known here becomes a test that does not hold.
import type { Family, Protocol } from '../../../model/types.ts';
import { backendOf } from '../iptables.ts';
import { spanOf } from '../ranges.ts';
import type { Action, Backend, ConnectionState, KeyPart, Side, Test, Verdict } from '../types.ts';
import { elementsOf, type TextSet, wordsOf } from './tables.ts';
import { Words } from './words.ts';

export interface Statements {
  readonly tests: readonly Test[];
  readonly actions: readonly Action[];
}

interface Draft {
  readonly tests: Test[];
  readonly actions: Action[];
}

export interface NftContext {
  readonly family: Family;
  /** `ip kube-proxy`: names of chains and sets begin with it. */
  readonly table: string;
  readonly sets: ReadonlyMap<string, TextSet>;
}

export const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  ...{ tcp: 'TCP', udp: 'UDP', sctp: 'SCTP' },
  ...{ '6': 'TCP', '17': 'UDP', '132': 'SCTP' },
};
/** By name, or by number, as `nft -y` prints it. */
const OTHER_PROTOCOL = /^(?:\d+|ip|icmp|ipv6-icmp|icmpv6|igmp|esp|ah|gre|comp|udplite|dccp)$/;
const STATES: Readonly<Record<string, ConnectionState>> = {
  ...{ new: 'NEW', established: 'ESTABLISHED', related: 'RELATED', invalid: 'INVALID' },
};

export function readRule(line: string, context: NftContext): Statements {
  const words = new Words(wordsOf(line));
  const draft: Draft = { tests: [], actions: [] };
  while (!words.isAtEnd) {
    const before = words.rest();
    if (readStatement(words, draft, context)) continue;
    draft.tests.push({ kind: 'unread', text: before });
    break;
  }
  return draft;
}

function readStatement(words: Words, draft: Draft, context: NftContext): boolean {
  const start = words.position;
  for (const read of READERS) {
    if (read(words, draft, context)) return true;
    // It knows the statement, but not what it says: what comes after must not be read as one of its own.
    if (words.position > start) return false;
  }
  return false;
}

const LOG_OPTIONS = ['prefix', 'level', 'group', 'snaplen', 'queue-threshold', 'flags'];

/** Comments, counters and logs change nothing. */
function isSaidOnly(words: Words): boolean {
  if (words.take('log')) {
    while (LOG_OPTIONS.includes(words.peek())) {
      words.next();
      words.next();
    }
    return true;
  }
  if (words.take('comment') || words.take('counter', 'name')) {
    words.next();
    return true;
  }
  if (!words.take('counter')) return false;
  if (words.take('packets')) words.next();
  if (words.take('bytes')) words.next();
  return true;
}

/** `ip daddr`, `meta l4proto`, `th dport`, `tcp dport` */
function readField(words: Words): { part: KeyPart; protocol?: Protocol } | undefined {
  for (const ip of ['ip', 'ip6']) {
    if (words.take(ip, 'saddr')) return { part: 'source' };
    if (words.take(ip, 'daddr')) return { part: 'destination' };
  }
  if (words.take('meta', 'l4proto') || words.take('ip', 'protocol')) return { part: 'protocol' };
  if (words.take('th', 'dport')) return { part: 'port' };
  for (const [name, protocol] of Object.entries(PROTOCOLS))
    if (words.take(name, 'dport')) return { part: 'port', protocol };
  return undefined;
}

/** `icmp type { echo-request }`: no packet that is compared is one. */
function readOtherProtocol(words: Words, { tests }: Draft): boolean {
  if (!['icmp', 'icmpv6', 'igmp'].includes(words.peek())) return false;
  if (!['type', 'code'].includes(words.peek(1))) return false;
  words.take(words.peek(), words.peek(1));
  words.take('!=');
  words.list();
  tests.push({ kind: 'protocol', protocols: [], not: false });
  return true;
}

function readAddressOrKey(words: Words, draft: Draft, context: NftContext): boolean {
  const first = readField(words);
  if (first === undefined) return false;
  const key = [first.part];
  if (first.protocol !== undefined)
    draft.tests.push({ kind: 'protocol', protocols: [first.protocol], not: false });
  while (words.take('.')) {
    const field = readField(words);
    if (field === undefined) return false;
    key.push(field.part);
  }
  if (words.take('vmap')) return readVerdictMap(words, key, draft, context);
  const not = words.take('!=');
  if (!not) words.take('==');
  if (words.peek().startsWith('@'))
    return readMember(words.next().slice(1), key, not, draft, context);
  const [part] = key;
  if (key.length > 1 || part === undefined) return false;
  const test = valueTest(part, words, not);
  if (test === undefined) return false;
  draft.tests.push(test);
  return true;
}

function readMember(
  name: string,
  key: readonly KeyPart[],
  not: boolean,
  { tests }: Draft,
  { table, sets }: NftContext,
): boolean {
  const set = sets.get(name);
  if (set === undefined) return false;
  const list = `${table} ${name}`;
  if (set.isDynamic && !not) tests.push({ kind: 'remembered', list, seconds: set.seconds });
  else tests.push({ kind: 'member', key, set: list, not });
  return true;
}

function valueTest(part: KeyPart, words: Words, not: boolean): Test | undefined {
  const values = words.list().map((item) => item.join(' '));
  switch (part) {
    case 'protocol': {
      const protocols = values.flatMap((value) => PROTOCOLS[value] ?? []);
      const isKnown = values.every((value) => value in PROTOCOLS || OTHER_PROTOCOL.test(value));
      return isKnown ? { kind: 'protocol', protocols, not } : undefined;
    }
    case 'port':
      return portTest(values, not);
    case 'source':
    case 'destination': {
      const ranges = values.flatMap((value) => spanOf(value) ?? []);
      if (ranges.length !== values.length) return undefined;
      return { kind: 'address', side: part, ranges, not };
    }
  }
}

function portTest(values: readonly string[], not: boolean): Test | undefined {
  const ranges = values.map((value) => {
    const [from = Number.NaN, to = from] = value.split('-').map(Number);
    return { from, to };
  });
  return ranges.some(({ from, to }) => Number.isNaN(from + to))
    ? undefined
    : { kind: 'port', ranges, not };
}

function readVerdictMap(
  words: Words,
  key: readonly KeyPart[],
  { actions }: Draft,
  { table, sets }: NftContext,
): boolean {
  const name = words.next().slice(1);
  if (!sets.has(name)) return false;
  actions.push({ kind: 'look-up', key, map: `${table} ${name}` });
  return true;
}

/** `meta mark & 0x4000 != 0x0`, `meta mark 0x1`, `meta mark set meta mark | 0x4000` */
function readMark(words: Words, { tests, actions }: Draft): boolean {
  if (words.take('meta', 'mark', 'set', 'meta', 'mark')) {
    const [operator, value] = [words.next(), Number(words.next())];
    if (operator === '|') actions.push({ kind: 'mark', mask: value, value });
    else if (operator === '^') actions.push({ kind: 'mark', mask: 0, value });
    else if (operator === '&') actions.push({ kind: 'mark', mask: ~value >>> 0, value: 0 });
    else return false;
    return true;
  }
  if (words.peek() !== 'meta' || words.peek(1) !== 'mark' || words.peek(2) === 'set') return false;
  words.take('meta', 'mark');
  const mask = words.take('&') ? Number(words.next()) : 0xffffffff;
  const not = words.take('!=');
  if (!not) words.take('==');
  const value = Number(words.next());
  if (Number.isNaN(mask + value)) return false;
  tests.push({ kind: 'mark', mask, value, not });
  return true;
}

function readOther(words: Words, { tests }: Draft): boolean {
  for (const side of ['source', 'destination'] satisfies Side[]) {
    if (!words.take('fib', side === 'source' ? 'saddr' : 'daddr', 'type')) continue;
    const not = words.take('!=');
    if (!words.take('local')) return false;
    tests.push({ kind: 'local', side, not });
    return true;
  }
  if (words.take('ct', 'status', 'dnat')) {
    tests.push({ kind: 'state', any: ['DNAT'], not: false });
    return true;
  }
  if (words.take('ct', 'state')) return readState(words, tests);
  if (!words.take('iifname') && !words.take('iif')) return false;
  const not = words.take('!=');
  if (/^[@{]/.test(words.peek())) return false;
  tests.push({ kind: 'device', name: words.next().replaceAll('"', ''), not });
  return true;
}

function readState(words: Words, tests: Test[]): boolean {
  const not = words.take('!=');
  const any = words.list().map(([word = '']) => STATES[word]);
  while (words.take(',')) any.push(STATES[words.next()]);
  const known = any.filter((state) => state !== undefined);
  if (known.length !== any.length) return false;
  tests.push({ kind: 'state', any: known, not });
  return true;
}

export function verdictOf(words: readonly string[], table: string): Verdict | undefined {
  const [kind, chain] = words;
  switch (kind) {
    case 'jump':
    case 'goto':
      return chain === undefined ? undefined : { kind, chain: `${table} ${chain}` };
    case 'accept':
    case 'drop':
    case 'return':
    case 'reject':
      return { kind };
    default:
      return undefined;
  }
}

function readAction(words: Words, { actions }: Draft, context: NftContext): boolean {
  const { table } = context;
  const verdict = verdictOf([words.peek(), words.peek(1)], table);
  if (verdict !== undefined) {
    words.next();
    if (verdict.kind === 'jump' || verdict.kind === 'goto') words.next();
    if (verdict.kind === 'reject' && words.take('with')) while (!words.isAtEnd) words.next();
    actions.push(verdict);
    return true;
  }
  if (words.take('masquerade')) {
    words.take('fully-random');
    actions.push({ kind: 'masquerade' });
    return true;
  }
  if (words.take('update') || words.take('add')) {
    const name = words.next().slice(1);
    words.list();
    actions.push({ kind: 'remember', list: `${table} ${name}` });
    return true;
  }
  if (words.take('dnat')) return readDnat(words, actions, context);
  return words.take('numgen', 'random', 'mod') && readOneOf(words, actions, table);
}

/** `2 vmap { 0 : goto endpoint-A, 1 : goto endpoint-B }` */
function readOneOf(words: Words, actions: Action[], table: string): boolean {
  const count = Number(words.next());
  if (!words.take('vmap')) return false;
  const items = words.list();
  const verdicts = items.flatMap((item) => verdictOf(item.slice(2), table) ?? []);
  if (verdicts.length !== count) return false;
  actions.push({ kind: 'one-of', verdicts });
  return true;
}

/** `to 10.1.1.5:8080`, `ip to numgen random mod 2 map { 0 : 10.1.1.5 . 8080, … }`, or a named map of these. */
function readDnat(words: Words, actions: Action[], { sets }: NftContext): boolean {
  if (!words.take('ip')) words.take('ip6');
  if (!words.take('to')) return false;
  if (!words.take('numgen', 'random', 'mod')) {
    const to = backendOf(words.next());
    if (to === undefined) return false;
    actions.push({ kind: 'dnat', to: [to] });
    return true;
  }
  const count = Number(words.next());
  const first = words.take('offset') ? Number(words.next()) : 0;
  if (!words.take('map')) return false;
  const named = words.peek().startsWith('@') ? sets.get(words.next().slice(1)) : undefined;
  const known = named === undefined ? numbered(words.list()) : numberedIn(named);
  const to = Array.from({ length: count }, (_, index) => known.get(first + index));
  const found = to.filter((backend) => backend !== undefined);
  if (found.length < count) return false;
  actions.push({ kind: 'dnat', to: found });
  return true;
}

/** Many Services share a named map. */
const NUMBERED = new WeakMap<TextSet, ReadonlyMap<number, Backend>>();

function numberedIn(set: TextSet): ReadonlyMap<number, Backend> {
  const known = NUMBERED.get(set) ?? numbered(elementsOf(set));
  NUMBERED.set(set, known);
  return known;
}

/** `0 : 10.1.1.5 . 8080`; a range of numbers is a backend with a weight. */
function numbered(items: Iterable<readonly string[]>): ReadonlyMap<number, Backend> {
  const found = new Map<number, Backend>();
  for (const item of items) {
    const cut = item.indexOf(':');
    const [from = 0, to = from] = (item[0] ?? '').split('-').map(Number);
    const [address = '', , port = ''] = item.slice(cut + 1);
    for (let at = from; at <= to; at += 1) found.set(at, { address, port: Number(port) });
  }
  return found;
}

type Reader = (words: Words, draft: Draft, context: NftContext) => boolean;
const READERS: readonly Reader[] = [
  ...[isSaidOnly, readOtherProtocol, readAddressOrKey, readMark, readOther, readAction],
];
