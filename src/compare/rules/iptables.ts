// SPDX-License-Identifier: Apache-2.0
// What iptables-save and ip6tables-save print -> the rules of one family.
import {
  BUILT_IN,
  parseLine,
  type ScannedTable,
  scanTables,
  undeclared,
} from '../../engines/iptables/rules/parse.ts';
import type { Rule as Parsed, Target } from '../../engines/iptables/rules/types.ts';
import { canonicalAddress } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import { elementsOf, type IpSets } from './ipsets.ts';
import { LazyChains } from './lazy-chains.ts';
import { withoutModules } from './modules.ts';
import { rangeOf } from './ranges.ts';
import { surveyOf } from './survey.ts';
import type { Action, BaseChain, Hook, Program, Rule, Side, Test } from './types.ts';

/** Where the kernel calls a table: uapi/linux/netfilter_ipv4.h, NF_IP_PRI_*. */
const PRIORITIES: Readonly<Record<string, readonly (readonly [Hook, number])[]>> = {
  raw: [
    ['prerouting', -300],
    ['output', -300],
  ],
  mangle: (['prerouting', 'input', 'forward', 'output', 'postrouting'] as const).map((hook) => [
    hook,
    -150,
  ]),
  nat: [
    ['prerouting', -100],
    ['output', -100],
    ['input', 100],
    ['postrouting', 100],
  ],
  filter: (['input', 'forward', 'output'] as const).map((hook) => [hook, 0]),
};

const VERDICTS: Readonly<Record<string, 'accept' | 'drop' | 'return'>> = {
  ACCEPT: 'accept',
  DROP: 'drop',
  RETURN: 'return',
};
const OF_A_PROXY = /^KUBE-/;

export type Read<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };

/** Where the lines of a chain are; in most texts they follow one another, and there is one span. */
interface Span {
  from: number;
  to: number;
  next: Span | undefined;
}

type Table = ScannedTable<Span>;

const empty = (): Span => ({ from: 0, to: 0, next: undefined });

interface Wanted {
  /** Before the names of its tables, so that rules of another variant can be beside them. */
  readonly prefix?: string;
  /** Without those of a proxy. */
  readonly isForeignOnly?: boolean;
  /** To which rules of xt_set refer. */
  readonly ipsets?: IpSets;
}

export function readIptables(
  family: Family,
  saved: string,
  { prefix = '', isForeignOnly = false, ipsets = new Map() }: Wanted = {},
): Read<Program> {
  const builtIn = new Map<string, Span>();
  const scanned = scanTables<Span>(saved, {
    empty,
    onRule: (line, table, at) => {
      const chain = chainOf(line);
      if (chain === undefined) return notRead(line);
      const reason = undeclared(table, chain);
      if (reason !== undefined) return reason;
      const name = `${prefix}${table.name} ${chain}`;
      const span = table.chains.get(chain) ?? builtIn.get(name) ?? empty();
      if (!table.chains.has(chain)) builtIn.set(name, span);
      extend(span, at, at + line.length);
      return undefined;
    },
  });
  if (!scanned.ok) return { ok: false, reason: `line ${scanned.line}: ${scanned.reason}` };
  const tables = new Map(scanned.tables.map((table) => [`${prefix}${table.name}`, table]));
  const hooks = { prerouting: [], input: [], forward: [], output: [], postrouting: [] } as {
    readonly [Name in Hook]: BaseChain[];
  };
  for (const [key, { name }] of tables)
    for (const [hook, priority] of PRIORITIES[name] ?? [])
      hooks[hook].push({ priority, isNat: name === 'nat', chain: `${key} ${hook.toUpperCase()}` });
  for (const list of Object.values(hooks)) list.sort((a, b) => a.priority - b.priority);
  const chains = new LazyChains(
    {
      get: (name) => {
        const cut = name.indexOf(' ');
        const own = tables.get(name.slice(0, cut))?.chains.get(name.slice(cut + 1));
        return own ?? builtIn.get(name);
      },
      *[Symbol.iterator]() {
        yield* builtIn;
        for (const [table, { chains: own }] of tables)
          for (const [chain, span] of own) yield [`${table} ${chain}`, span] as const;
      },
    },
    (name, span) => {
      const [table = '', chain = ''] = name.split(' ');
      const around = { chain, key: table, table: tables.get(table), ipsets };
      const rules = rulesOf(saved, span, around);
      return isForeignOnly ? rules.filter(({ isForeign }) => isForeign) : rules;
    },
  );
  const sets = elementsOf(ipsets);
  try {
    return {
      ok: true,
      value: { family, hooks, chains, sets, survey: surveyOf(chains.values(), sets) },
    };
  } catch (error) {
    if (error instanceof Unreadable) return { ok: false, reason: error.message };
    throw error;
  }
}

function extend(first: Span, from: number, to: number): void {
  let span = first;
  while (span.next !== undefined) span = span.next;
  if (span.to === 0) [span.from, span.to] = [from, to];
  else if (span.to === from - 1) span.to = to;
  else span.next = { from, to, next: undefined };
}

/** Of a line `-A NAME`, perhaps with counters before it. */
function chainOf(line: string): string | undefined {
  const [, plain] = /^(?:\[\d+:\d+\] )?-A ([^ "]+)/.exec(line) ?? [];
  if (plain !== undefined) return plain;
  const read = parseLine(line);
  return read.ok ? read.chain : undefined;
}

function notRead(line: string): string {
  const read = parseLine(line);
  return read.ok ? `${line} names no chain` : read.reason;
}

class Unreadable extends Error {}

/** Throws Unreadable. */
function rulesOf(
  saved: string,
  first: Span,
  {
    chain,
    key,
    table,
    ipsets,
  }: {
    readonly chain: string;
    readonly key: string;
    readonly table?: Table | undefined;
    readonly ipsets: IpSets;
  },
): readonly Rule[] {
  const rules: Rule[] = [];
  const isBuiltIn = BUILT_IN.has(chain);
  const isTarget = (target: string): boolean =>
    target in VERDICTS || table?.chains.has(target) === true;
  const name = table?.name ?? '';
  for (let span: Span | undefined = first; span !== undefined; span = span.next) {
    if (span.to === 0) continue;
    for (const line of saved.slice(span.from, span.to).split('\n')) {
      const read = parseLine(line);
      if (!read.ok) {
        const number = saved.slice(0, saved.indexOf(line, span.from)).split('\n').length;
        throw new Unreadable(`line ${number}: ${read.reason}`);
      }
      const { rule, tests } = withoutModules(read.rule, ipsets);
      const isProxys = isBuiltIn
        ? rule.target?.kind === 'jump' && OF_A_PROXY.test(rule.target.chain)
        : OF_A_PROXY.test(chain);
      rules.push({
        tests: [...tests, ...testsOf(rule, isTarget)],
        actions: actionsOf(key, rule),
        text: `-t ${name} ${line}`,
        isForeign: !isProxys,
      });
    }
  }
  return rules;
}

/** @param isTarget whether a rule can jump there: `NOTRACK` and others are no chains */
function testsOf(rule: Parsed, isTarget: (name: string) => boolean): readonly Test[] {
  const tests: Test[] = [];
  const { source, destination, protocol, destinationPort: port, inInterface: device } = rule;
  if (source !== undefined) tests.push(addressTest('source', source));
  if (destination !== undefined) tests.push(addressTest('destination', destination));
  if (protocol !== undefined) tests.push({ kind: 'protocol', protocols: [protocol], not: false });
  if (port !== undefined)
    tests.push({ kind: 'port', ranges: [{ from: port, to: port }], not: false });
  if (device !== undefined) {
    const name = device.name.replace(/\+$/, '*');
    tests.push({ kind: 'device', name, not: device.not === true });
  }
  if (rule.isSourceLocal) tests.push({ kind: 'local', side: 'source', not: false });
  if (rule.isDestinationLocal) tests.push({ kind: 'local', side: 'destination', not: false });
  if (rule.states !== undefined)
    tests.push({ kind: 'state', any: rule.states.any, not: rule.states.not === true });
  if (rule.mark !== undefined) {
    const { value, mask, not } = rule.mark;
    tests.push({ kind: 'mark', value, mask, not: not === true });
  }
  if (rule.recent?.action.kind === 'check') {
    const { list, action } = rule.recent;
    tests.push({ kind: 'remembered', list, seconds: action.seconds });
  }
  if (rule.target?.kind === 'jump' && !isTarget(rule.target.chain))
    tests.push({ kind: 'unread', text: `-j ${rule.target.chain}` });
  if (OTHER_PROTOCOL.test(rule.other ?? ''))
    tests.push({ kind: 'protocol', protocols: [], not: false });
  const { unread } = otherOf(rule);
  if (unread !== '') tests.push({ kind: 'unread', text: unread });
  if (rule.probability !== undefined) tests.push({ kind: 'share', share: rule.probability });
  return tests;
}

function addressTest(
  side: Side,
  { prefix, not }: { readonly prefix: string; readonly not?: true },
): Test {
  const range = rangeOf(prefix);
  if (range === undefined) return { kind: 'unread', text: prefix };
  return { kind: 'address', side, ranges: [range], not: not === true };
}

/** `-p icmp`: no packet that is compared has another protocol than TCP, UDP and SCTP. */
const OTHER_PROTOCOL = /(?:^|(?<!!) )-p \S/;
/** The target stands last. What only logs does nothing, whatever it tests. */
const LOGS = /(?:^| )-j N?F?LOG(?: |$)/;
const REFUSES = /(?:^| )-j REJECT --reject-with \S+$/;

/** What of `other` may decide, and is not known; `-j REJECT --reject-with tcp-reset` refuses as others do. */
function otherOf({ other = '', target }: Parsed) {
  const isReject = REFUSES.test(other);
  const decides = target !== undefined || / ?-[jg] /.test(other);
  if (!decides || LOGS.test(other) || OTHER_PROTOCOL.test(other)) return { unread: '', isReject };
  return { unread: other.replace(REFUSES, ''), isReject };
}

function actionsOf(table: string, parsed: Parsed): readonly Action[] {
  const { recent, target } = parsed;
  if (otherOf(parsed).isReject) return [{ kind: 'reject' }];
  const remembered: readonly Action[] =
    recent?.action.kind === 'set' ? [{ kind: 'remember', list: recent.list }] : [];
  return target === undefined ? remembered : [...remembered, actionOf(table, target)];
}

function actionOf(table: string, target: Target): Action {
  switch (target.kind) {
    case 'jump': {
      const verdict = VERDICTS[target.chain];
      if (verdict !== undefined) return { kind: verdict };
      return { kind: 'jump', chain: `${table} ${target.chain}` };
    }
    case 'reject':
      return { kind: 'reject' };
    case 'dnat': {
      const to = backendOf(target.to);
      return to === undefined ? { kind: 'unread', text: target.to } : { kind: 'dnat', to: [to] };
    }
    case 'masquerade':
      return { kind: 'masquerade' };
    case 'set-mark':
      return { kind: 'mark', mask: target.mask, value: target.value };
  }
}

const BACKEND = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/;

/** `10.1.1.5:8080`, `[fd00::5]:8080`, `10.1.1.5` */
export function backendOf(text: string) {
  const [, inner, plain, port] = BACKEND.exec(text) ?? [];
  const address = canonicalAddress(inner ?? plain ?? text);
  if (address === undefined) return undefined;
  return { address, port: port === undefined ? undefined : Number(port) };
}
