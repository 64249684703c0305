// SPDX-License-Identifier: Apache-2.0
// Small texts of rules as sides, for packets that no story has.
import { type Comparison, compare } from '../../../src/compare/compare.ts';
import { readIptables } from '../../../src/compare/rules/iptables.ts';
import { readNft } from '../../../src/compare/rules/nft/program.ts';
import type { Program } from '../../../src/compare/rules/types.ts';
import { rulesSide } from '../../../src/compare/sides/rules-side.ts';

export const NODE = { own: ['192.0.2.11'] };

/** What iptables-save prints of a table nat with these rules of chains of kube-proxy. */
export function saved(...rules: readonly string[]): string {
  const chains = new Set(rules.map((rule) => rule.split(' ')[1] ?? ''));
  return [
    '*nat',
    ':PREROUTING ACCEPT [0:0]',
    ...['KUBE-SERVICES', ...chains].filter(isFirst).map((name) => `:${name} - [0:0]`),
    '-A PREROUTING -j KUBE-SERVICES',
    ...rules,
    'COMMIT',
  ].join('\n');
}

const isFirst = (name: string, at: number, all: readonly string[]): boolean =>
  name.startsWith('KUBE-') && all.indexOf(name) === at;

/** Lines with one tab are sets of the table; those with two are rules of its chain at the hook prerouting. */
export function nftTable(...lines: readonly string[]): string {
  return [
    'table ip kube-proxy {',
    ...lines.filter((line) => !line.startsWith('\t\t')),
    '\tchain filter-prerouting {',
    '\t\ttype filter hook prerouting priority -110; policy accept;',
    ...lines.filter((line) => line.startsWith('\t\t')),
    '\t}',
    '}',
    '',
  ].join('\n');
}

export function programOf(text: string): Program {
  const isNft = /^table /m.test(text);
  const isProxys = (table: string): boolean => table === 'ip kube-proxy';
  if (isNft) return readNft('IPv4', text, { isProxys, isLeftOut: () => false });
  const read = readIptables('IPv4', text);
  if (!read.ok) throw new Error(read.reason);
  return read.value;
}

export function comparisonOf(one: string, other: string): Comparison {
  const [left, right] = [one, other].map((text) =>
    rulesSide({ kind: 'iptables', name: 'rules' }, programOf(text), NODE),
  );
  return compare({ family: 'IPv4', node: NODE, sides: [left!, right!] });
}

/** `10.96.0.10:80/TCP: forward | none`, of destinations that the sides treat differently. */
export const differencesOf = (one: string, other: string): readonly string[] => [
  ...new Set(
    comparisonOf(one, other).differences.map(
      ({ destination: { address, port, protocol }, answers }) =>
        `${address}:${port}/${protocol}: ${answers.map(({ verdict }) => verdict).join(' | ')}`,
    ),
  ),
];
