// SPDX-License-Identifier: Apache-2.0
// The filters of iptables, as iptables-save prints them, as chains of a question. Pure.
import { type ParsedTable, parseTables } from '../../engines/iptables/rules/parse.ts';
import { printRule } from '../../engines/iptables/rules/print.ts';
import type { Prefix, Rule } from '../../engines/iptables/rules/types.ts';
import type { Family } from '../../model/types.ts';
import {
  type BaseChain,
  type FilterRule,
  type Fit,
  leastFit,
  mostFit,
  opposite,
  type Verdict,
} from './chains.ts';
import { notIn, type Question } from './question.ts';

const VERDICTS: Readonly<Record<string, Verdict>> = {
  ACCEPT: { kind: 'accept' },
  DROP: { kind: 'drop' },
  REJECT: { kind: 'drop' },
  RETURN: { kind: 'return' },
};

const ICMP = /(?:^|(! )| )-p (?:icmp|ipv6-icmp|icmpv6|igmp|vrrp|esp|ah|112|58|1)(?: |$)/;
/** What is rendered names the protocol's match also where iptables-save, without a port, does not. */
const UNPRINTED = / -m (?:tcp|udp|sctp)(?= -[jg] |$)/;
const PORTS = /(! )?--(?:dports?|destination-ports?) ([\d:,]+)/;
const TARGET = /(?:^| )-([jg]) (\S+)/;
const OUT = /(?:^| )-o (\S+)/;

/** A hook's chain in these tables; text that cannot be read has none. */
export function chainsOf(
  text: string,
  {
    hook,
    tables,
    program,
  }: {
    readonly hook: 'PREROUTING' | 'FORWARD';
    readonly tables: readonly string[];
    readonly program: string;
  },
  question: Question,
): readonly BaseChain[] {
  const parsed = parseTables(text);
  const family = program.startsWith('ip6') ? 'IPv6' : 'IPv4';
  if (!parsed.ok) return [];
  return parsed.tables
    .filter(({ name }) => tables.includes(name))
    .map((table) => baseChain(table, hook, program, { family, question }));
}

interface Asked {
  readonly family: Family;
  readonly question: Question;
}

const baseChain = (
  { name, policies, chains, jumps }: ParsedTable,
  hook: string,
  program: string,
  asked: Asked,
): BaseChain => ({
  what: `${program}: chain ${hook} of table ${name}`,
  policy: policies[hook] === 'DROP' ? 'drop' : 'accept',
  rules: jumps.filter(({ from }) => from === hook).map(({ rule }) => filterRule(rule, hook, asked)),
  chains: new Map(
    chains.map(({ name: chain, rules }) => [
      chain,
      rules.map((rule) => filterRule(rule, chain, asked)),
    ]),
  ),
});

const filterRule = (rule: Rule, chain: string, { family, question }: Asked): FilterRule => ({
  text: `-A ${chain} ${printRule(rule, family)}`.replace(UNPRINTED, ''),
  fit: fitOf(rule, question),
  verdicts: [verdictOf(rule)],
});

function verdictOf({ target, other }: Rule): Verdict {
  if (target?.kind === 'reject') return { kind: 'drop' };
  if (target?.kind === 'jump')
    return VERDICTS[target.chain] ?? { kind: 'jump', chain: target.chain };
  const [, how, name = ''] = TARGET.exec(other ?? '') ?? [];
  if (how === undefined) return { kind: 'continue' };
  return VERDICTS[name] ?? { kind: how === 'g' ? 'goto' : 'jump', chain: name };
}

const unless = (not: unknown, fit: Fit): Fit => (not === undefined ? fit : opposite(fit));

const ofPrefix = ({ prefix, not }: Prefix, fit: Fit, question: Question): Fit =>
  not === true ? notIn(fit, prefix, question) : fit;

function fitOf(rule: Rule, question: Question): Fit {
  const fits: Fit[] = [];
  const { source, destination, inInterface } = rule;
  if (source !== undefined) fits.push(ofPrefix(source, question.source(source.prefix), question));
  if (destination !== undefined)
    fits.push(ofPrefix(destination, question.destination(destination.prefix), question));
  if (inInterface !== undefined)
    fits.push(unless(inInterface.not, question.inInterface(inInterface.name)));
  if (rule.protocol !== undefined) fits.push('some');
  if (rule.states !== undefined) {
    const isOne = rule.states.any.includes(question.state);
    fits.push(isOne === (rule.states.not !== true) ? 'all' : 'none');
  }
  if (rule.isSourceLocal !== undefined) fits.push('none');
  if (rule.isDestinationLocal !== undefined) fits.push(question.isDestinationLocal);
  if (rule.mark !== undefined || rule.recent !== undefined || rule.probability !== undefined)
    fits.push('some');
  if (rule.destinationPort !== undefined)
    fits.push(question.destinationPorts(rule.destinationPort, rule.destinationPort));
  if (rule.other !== undefined) fits.push(...fitsOfOther(rule.other, question));
  return leastFit(fits);
}

/** Matches that are not modelled: they may match. Those that say nothing of the packet do not narrow it. */
function fitsOfOther(other: string, question: Question): readonly Fit[] {
  const icmp = ICMP.exec(other);
  const fits: Fit[] = icmp === null ? [] : [unless(icmp[1], 'none')];
  const [, not, ports] = PORTS.exec(other) ?? [];
  if (ports !== undefined) fits.push(unless(not, fitOfPorts(ports, question)));
  if (OUT.test(other)) fits.push('some');
  const rest = other
    .replace(ICMP, '')
    .replace(TARGET, '')
    .replace(/--reject-with \S+/, '')
    .trim();
  if (rest !== '') fits.push('some');
  return fits;
}

function fitOfPorts(text: string, question: Question): Fit {
  const fits = text.split(',').map((range) => {
    const [first = '0', last = first] = range.split(':');
    return question.destinationPorts(Number(first || 0), Number(last || 65_535));
  });
  return mostFit(fits);
}
