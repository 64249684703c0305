// SPDX-License-Identifier: Apache-2.0
// Which rules a start writes, by what the node uses and what works on it.
import { expect, test } from 'vitest';
import { chooseRules, type RulesInUse, type Works } from '../../../src/probe/rules-choice.ts';

const BOTH = ['IPv4', 'IPv6'] as const;
const NONE = { reason: 'it is not installed' };

const OWN_IPTABLES = 'iptables: rules of fairlead in iptables serve this node';
const PROXY_IPTABLES = 'iptables: rules of kube-proxy in iptables serve this node';
const LEGACY = 'iptables: iptables-legacy translates addresses on this node';
const FILTERED = 'iptables: only rules of iptables accept what its filters drop';

type Line = readonly [what: string, RulesInUse, iptables: Works, nftables: Works, expected: string];

const LINES: readonly Line[] = [
  ['a node that uses neither', {}, BOTH, BOTH, 'nftables'],
  ['iptables alone works', {}, BOTH, NONE, 'iptables: nftables: it is not installed'],
  ['nftables alone works', {}, NONE, BOTH, 'nftables'],
  ['neither works', {}, NONE, NONE, 'none'],
  ['no IPv6 in nftables', {}, BOTH, ['IPv4'], 'iptables: nftables cannot serve IPv6 on this node'],
  ['no IPv6 in either', {}, ['IPv4'], ['IPv4'], 'nftables'],
  ['no IPv6 in iptables', {}, ['IPv4'], BOTH, 'nftables'],

  ["fairlead's iptables", { own: 'iptables' }, BOTH, BOTH, OWN_IPTABLES],
  ["fairlead's nftables", { own: 'nftables' }, BOTH, BOTH, 'nftables'],
  [
    "fairlead's before kube-proxy's",
    { own: 'nftables', kubeProxy: 'iptables' },
    BOTH,
    BOTH,
    'nftables',
  ],
  ["fairlead's before legacy", { own: 'nftables', hasLegacyNat: true }, BOTH, BOTH, 'nftables'],
  ["kube-proxy's iptables", { kubeProxy: 'iptables' }, BOTH, BOTH, PROXY_IPTABLES],
  ["kube-proxy's nftables", { kubeProxy: 'nftables' }, BOTH, BOTH, 'nftables'],
  [
    "kube-proxy's nftables, a network in legacy",
    { kubeProxy: 'nftables', hasLegacyNat: true },
    BOTH,
    BOTH,
    'nftables',
  ],
  ['a network in legacy', { hasLegacyNat: true }, BOTH, BOTH, LEGACY],
  ['Docker', { isFiltered: true }, BOTH, BOTH, FILTERED],
  ["Docker, fairlead's nftables", { isFiltered: true, own: 'nftables' }, BOTH, BOTH, FILTERED],
  ['in use and without IPv6', { kubeProxy: 'iptables' }, ['IPv4'], BOTH, PROXY_IPTABLES],
  ['in use and gone', { own: 'iptables' }, NONE, BOTH, 'nftables: iptables: it is not installed'],
  ['in use, both gone', { own: 'iptables' }, NONE, NONE, 'none'],
];

test.each(LINES)('%s (%o)', (_, inUse, iptables, nftables, expected) => {
  const chosen = chooseRules(inUse, { iptables, nftables });
  const text = chosen === undefined ? 'none' : [chosen.engine, ...chosen.why].join(': ');
  expect(text).toBe(expected);
});
