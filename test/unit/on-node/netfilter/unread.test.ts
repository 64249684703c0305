// SPDX-License-Identifier: Apache-2.0
// Which filters of the kernel nobody has printed, and what iptables-nft has written as nft prints it.
import { expect, test } from 'vitest';
import { findObstacle } from '../../../../src/on-node/netfilter/obstacle.ts';
import {
  unreadChains,
  unreadFindings,
  unreadTables,
} from '../../../../src/on-node/netfilter/unread.ts';

const chain = (family: string, table: string, hook: string, prio: number, type = 'filter') => ({
  ...{ family, table, hook, prio, type },
  name: table === 'filter' ? hook.toUpperCase() : 'main',
});
const CHAINS = [
  chain('inet', 'site', 'prerouting', -300),
  chain('netdev', 'site', 'ingress', 0),
  chain('ip', 'filter', 'forward', 0),
  chain('ip6', 'filter', 'forward', 0),
  // None of these filters packets of Services before or after their translation.
  chain('inet', 'site', 'input', 0),
  chain('inet', 'site', 'prerouting', 0),
  chain('ip', 'nat', 'prerouting', -100, 'nat'),
  chain('ip', 'kube-proxy', 'forward', 0),
];

test('chains that iptables-save has not printed either, by the program that would', () => {
  const texts = unreadChains(CHAINS, new Set(['ip'])).map(
    ({ topic, program, what }) => `${topic} ${program} ${what}`,
  );
  expect(texts).toEqual([
    'forward ip6tables-nft-save chain FORWARD of table ip6 filter',
    'host-firewall nft chain main of table inet site',
    'host-firewall nft chain main of table netdev site',
  ]);
});

test('one finding for each topic and program', () => {
  const unread = unreadTables('iptables-legacy-save', ['filter', 'mangle', 'raw']);
  expect(unreadFindings(unread).map(({ topic, what }) => `${topic}: ${what}`)).toEqual([
    'forward: could not tell: table filter, table mangle cannot be read: iptables-legacy-save is missing or fails',
    'host-firewall: could not tell: table mangle, table raw cannot be read: iptables-legacy-save is missing or fails',
  ]);
});

const FACTS = { podRanges: [], frontends: [{ address: '192.0.2.11', port: 30_080 }] };
const ruleset = (table: string, hook: string, prio: number, ...expr: readonly object[]) => {
  const own = { family: 'ip', table };
  const name = hook.toUpperCase();
  const base = { ...own, name, type: 'filter', hook, prio, policy: 'accept' };
  return { nftables: [{ chain: base }, { rule: { ...own, chain: name, handle: 2, expr } }] };
};
const MULTIPORT = { xt: { type: 'match', name: 'multiport' } };
const REJECT = { xt: { type: 'target', name: 'REJECT' } };

test.each([
  ['ports by a match', ruleset('raw', 'prerouting', -300, MULTIPORT, { drop: null }), 'raw'],
  ['a target that refuses', ruleset('filter', 'forward', 0, REJECT), 'filter'],
  ['a target that refuses some', ruleset('filter', 'forward', 0, MULTIPORT, REJECT), undefined],
])('without iptables-save, its tables are judged as nft prints them: %s', (_, nft, table) => {
  const obstacle = findObstacle({ saved: [], nft }, FACTS);
  expect(obstacle?.rule.includes(`of table ip ${table}`)).toBe(table && true);
  const saved = [{ program: 'iptables-nft', text: '' }];
  expect(findObstacle({ saved, nft }, FACTS)).toBeUndefined();
});
