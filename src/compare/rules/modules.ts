// SPDX-License-Identifier: Apache-2.0
// Matches of iptables that no rule of mode iptables has, and those of mode ipvs do: sets, virtual servers, and some that are negated.
import type { Rule as Parsed } from '../../engines/iptables/rules/types.ts';
import type { Protocol } from '../../model/types.ts';
import { type IpSets, keyOfSet, setName } from './ipsets.ts';
import type { Test } from './types.ts';

const SET = /(?:^| )-m set (! )?--match-set (\S+) (\S+)(?= |$)/g;
const VIRTUAL = /(?:^| )-m ipvs --vproto (\d+) --vaddr (\S+) --vport (\d+)(?= |$)/g;
const LOCAL = /(?:^| )-m addrtype ! --(src|dst)-type LOCAL(?= |$)/g;
/** A packet that comes by a port of a bridge is asked about only where br_netfilter passes it to iptables. */
const NO_BRIDGE = /(?:^| )-m physdev ! --physdev-is-in(?= |$)/g;
const PROTOCOLS: Readonly<Record<string, Protocol>> = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' };

/** What of the rule's other text can be read, as tests, and the rule with the rest. */
export function withoutModules(
  rule: Parsed,
  ipsets: IpSets,
): { readonly rule: Parsed; readonly tests: readonly Test[] } {
  if (rule.other === undefined) return { rule, tests: [] };
  const tests: Test[] = [];
  const rest = rule.other
    .replace(SET, (text, not, name, flags) => {
      const set = ipsets.get(name);
      const key = set && keyOfSet(set, flags);
      if (key === undefined) return text;
      tests.push({ kind: 'member', key, set: setName(name), not: not !== undefined });
      return '';
    })
    .replace(VIRTUAL, (text, number, address, port) => {
      const protocol = PROTOCOLS[number];
      if (protocol === undefined) return text;
      tests.push({ kind: 'virtual', protocol, address, port: Number(port) });
      return '';
    })
    .replace(LOCAL, (_, side) => {
      tests.push({ kind: 'local', side: side === 'src' ? 'source' : 'destination', not: true });
      return '';
    })
    .replace(NO_BRIDGE, '')
    .trim();
  const { other: _, ...known } = rule;
  return { rule: rest === '' ? known : { ...known, other: rest }, tests };
}
