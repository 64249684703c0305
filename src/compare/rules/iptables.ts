// SPDX-License-Identifier: Apache-2.0
// What iptables-save and ip6tables-save print -> the rules of one family.
import { type ParsedTable, parseTables } from '../../engines/iptables/rules/parse.ts';
import type { Rule as Parsed, Target } from '../../engines/iptables/rules/types.ts';
import { canonicalAddress } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import { rangeOf } from './ranges.ts';
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

export function readIptables(family: Family, saved: string): Read<Program> {
  const lines = new Map<Parsed, string>();
  const parsed = parseTables(saved, (rule, line) => void lines.set(rule, line));
  if (!parsed.ok) return { ok: false, reason: `line ${parsed.line}: ${parsed.reason}` };
  const chains = new Map<string, readonly Rule[]>();
  const hooks = { prerouting: [], input: [], forward: [], output: [], postrouting: [] } as {
    readonly [Name in Hook]: BaseChain[];
  };
  for (const table of parsed.tables) addTable(table, lines, chains, hooks);
  for (const list of Object.values(hooks)) list.sort((a, b) => a.priority - b.priority);
  return { ok: true, value: { family, hooks, chains, sets: new Map() } };
}

function addTable(
  { name, chains: own, jumps }: ParsedTable,
  lines: ReadonlyMap<Parsed, string>,
  chains: Map<string, readonly Rule[]>,
  hooks: Readonly<Record<Hook, BaseChain[]>>,
): void {
  const names = new Set(own.map((chain) => chain.name));
  const isTarget = (target: string): boolean => names.has(target) || target in VERDICTS;
  const add = (chain: string, rules: readonly Parsed[], isBuiltIn: boolean): void => {
    const isForeign = (rule: Parsed): boolean =>
      isBuiltIn
        ? !(rule.target?.kind === 'jump' && OF_A_PROXY.test(rule.target.chain))
        : !OF_A_PROXY.test(chain);
    chains.set(
      `${name} ${chain}`,
      rules.map((rule) => ({
        ...{ tests: testsOf(rule, isTarget), actions: actionsOf(name, rule) },
        isForeign: isForeign(rule),
        text: `-t ${name} ${lines.get(rule) ?? ''}`,
      })),
    );
  };
  for (const chain of own) add(chain.name, chain.rules, false);
  for (const [hook, priority] of PRIORITIES[name] ?? []) {
    const builtIn = hook.toUpperCase();
    add(
      builtIn,
      jumps.filter(({ from }) => from === builtIn).map(({ rule }) => rule),
      true,
    );
    hooks[hook].push({ priority, isNat: name === 'nat', chain: `${name} ${builtIn}` });
  }
}

/** Most rules of a table say the same: each test is kept once. */
const KNOWN = new Map<string, Test>();

function shared(test: Test, key: string): Test {
  const known = KNOWN.get(key);
  if (known === undefined) KNOWN.set(key, test);
  return known ?? test;
}

/** @param isTarget whether a rule can jump there: `NOTRACK` and others are no chains */
function testsOf(rule: Parsed, isTarget: (name: string) => boolean): readonly Test[] {
  const tests: Test[] = [];
  const { source, destination, protocol, destinationPort: port, inInterface: device } = rule;
  if (source !== undefined) tests.push(addressTest('source', source));
  if (destination !== undefined) tests.push(addressTest('destination', destination));
  if (protocol !== undefined)
    tests.push(shared({ kind: 'protocol', protocols: [protocol], not: false }, protocol));
  if (port !== undefined)
    tests.push(
      shared({ kind: 'port', ranges: [{ from: port, to: port }], not: false }, `port ${port}`),
    );
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
  if (rule.other !== undefined) tests.push({ kind: 'unread', text: rule.other });
  if (rule.probability !== undefined) tests.push({ kind: 'share', share: rule.probability });
  return tests;
}

function addressTest(
  side: Side,
  { prefix, not }: { readonly prefix: string; readonly not?: true },
): Test {
  const range = rangeOf(prefix);
  if (range === undefined) return { kind: 'unread', text: prefix };
  const test: Test = { kind: 'address', side, ranges: [range], not: not === true };
  return shared(test, `${side} ${prefix} ${not}`);
}

function actionsOf(table: string, { recent, target }: Parsed): readonly Action[] {
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
