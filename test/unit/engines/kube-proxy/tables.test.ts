// SPDX-License-Identifier: Apache-2.0
// kube-proxy's tables of nftables, and what has to stay for connections that it has translated.
import { describe, expect, test } from 'vitest';
import { heldTables } from '../../../../src/engines/iptables/state/diff/text.ts';
import { leftoversText } from '../../../../src/engines/kube-proxy/leftover.ts';
import { type FoundRules, neededBy } from '../../../../src/engines/kube-proxy/needed.ts';
import { nftRemoval, nftRows, parseNft } from '../../../../src/engines/kube-proxy/nftables.ts';
import { ruleLeftovers } from '../../../../src/engines/kube-proxy/rules.ts';
import { isTracking, translatedConnections } from '../../../../src/engines/kube-proxy/tracking.ts';

const chain = (family: string, table: string, type?: string) => ({
  chain: { family, table, name: 'c', ...(type && { type }) },
});
const rule = (family: string, table: string, ...expr: object[]) => ({
  rule: { family, table, chain: 'c', expr },
});
const CT = { match: { op: 'in', left: { ct: { key: 'state' } }, right: 'established' } };
const nft = (...nftables: object[]) =>
  parseNft(JSON.stringify({ nftables: [{ metainfo: {} }, ...nftables] }));
const OWN = [
  { table: { family: 'ip', name: 'kube-proxy', handle: 1 } },
  chain('ip', 'kube-proxy', 'nat'),
  rule('ip', 'kube-proxy', { masquerade: null }),
  rule('ip', 'kube-proxy', CT),
];
const others = [{ table: { family: 'inet', name: 'kube-proxy' } }, chain('ip6', 'nat', 'nat')];

test('its tables alone, not those of another family or name', () => {
  const state = nft(...OWN, ...others, rule('ip', 'nat', { xt: null }));
  expect(state.tables).toEqual([{ family: 'ip', rules: 2, chains: 1 }]);
  expect([...state.othersNat]).toEqual(['IPv6']);
  expect([...state.othersTrack]).toEqual([]);
  expect(nftRemoval(state, new Map())).toEqual([
    { program: 'nft', args: ['-f', '-'], stdin: 'delete table ip kube-proxy\n' },
  ]);
});

test('reduced to a chain that changes nothing, in the transaction that deletes the table', () => {
  const state = nft(...OWN);
  const needed = new Map([['IPv4', 'why']] as const);
  expect(nftRows(state, needed)).toEqual({
    leftovers: [{ kind: 'table', where: 'nftables', what: 'ip kube-proxy', count: 2 }],
    kept: [
      {
        where: 'nftables',
        what: 'table ip kube-proxy, with one chain that changes nothing',
        reason: 'why',
      },
    ],
  });
  expect(nftRemoval(state, needed)[0]?.stdin).toBe(
    [
      'delete table ip kube-proxy',
      'add table ip kube-proxy',
      'add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100; }',
      'add rule ip kube-proxy nat-prerouting ct state established\n',
    ].join('\n'),
  );
  const reduced = nft(...OWN.slice(0, 2), rule('ip', 'kube-proxy', CT));
  expect(nftRows(reduced, needed).leftovers).toEqual([]);
  expect(nftRows(reduced, new Map()).leftovers).toHaveLength(1);
});

describe('what has to stay', () => {
  const rules = (saved: string): FoundRules => {
    const held = heldTables(saved);
    return { family: 'IPv4', where: 'iptables-nft IPv4', held, found: ruleLeftovers(held) };
  };
  const PROXY = rules(
    '*filter\n:KUBE-FORWARD - [0:0]\n-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n',
  );
  const PLUGIN = rules(
    '*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -s 10.1.0.0/16 -j MASQUERADE\nCOMMIT\n',
  );
  const TWO = new Map([['IPv4', 2]] as const);

  test('nothing without connections that were translated', () => {
    const { rules: ofRules, nft: ofNft } = neededBy([PROXY], nft(...OWN), new Map());
    expect([...ofRules.keys(), ...ofNft.keys()]).toEqual([]);
  });

  test('a chain of iptables, unless a rule of others tracks connections', () => {
    expect(neededBy([PROXY], nft(), TWO).rules.get('IPv4')).toMatch(
      /^2 connections are translated/,
    );
    expect([...neededBy([PROXY, PLUGIN], nft(), TWO).rules]).toEqual([]);
    expect([...neededBy([PROXY], nft(rule('inet', 'fw', CT)), TWO).rules]).toEqual([]);
  });

  test('a chain of nftables, unless others track and translate', () => {
    expect([...neededBy([], nft(...OWN), TWO).nft.keys()]).toEqual(['IPv4']);
    const tracking = rule('ip', 'fw', CT);
    expect([...neededBy([], nft(...OWN, tracking), TWO).nft.keys()]).toEqual(['IPv4']);
    expect([...neededBy([], nft(...OWN, tracking, chain('ip', 'x', 'nat')), TWO).nft]).toEqual([]);
    expect([...neededBy([PLUGIN], nft(...OWN), TWO).nft]).toEqual([]);
  });

  test('everything, if the kernel does not list its connections', () => {
    const { rules: ofRules } = neededBy([PROXY], nft(), undefined);
    expect([...ofRules.keys()]).toEqual(['IPv4', 'IPv6']);
  });
});

test('connections whose destination was translated', () => {
  const table = [
    'ipv4     2 tcp      6 86399 ESTABLISHED src=10.1.0.5 dst=10.96.0.10 sport=5 dport=80 src=10.1.0.9 dst=10.1.0.5 sport=8080 dport=5 [ASSURED] mark=0 use=1',
    'ipv4     2 tcp      6 86399 ESTABLISHED src=10.1.0.5 dst=10.1.0.9 sport=5 dport=80 src=10.1.0.9 dst=192.168.0.1 sport=80 dport=5 mark=0 use=1',
    'ipv6     10 udp      17 29 src=fd00::5 dst=fd00::9 sport=5 dport=30053 [UNREPLIED] src=fd00::9 dst=fd00::5 sport=53 dport=5 mark=0 use=2',
    'ipv4     2 icmp     1 29 src=10.1.0.5 dst=10.1.0.9 type=8 code=0 id=1 src=10.1.0.9 dst=10.1.0.5 type=0 code=0 id=1 mark=0 use=1',
    '',
  ].join('\n');
  expect([...translatedConnections(table)]).toEqual([
    ['IPv4', 1],
    ['IPv6', 1],
  ]);
});

test('rules that need connection tracking', () => {
  expect(isTracking('-m conntrack --ctstate NEW -j ACCEPT')).toBe(true);
  expect(isTracking('-s 10.1.0.0/16 ! -o cni0 -j MASQUERADE')).toBe(true);
  expect(isTracking('-m comment --comment "a -m state b" -j ACCEPT')).toBe(false);
  expect(isTracking('-p tcp -m tcp --dport 22 -j ACCEPT')).toBe(false);
});

test('leftovers in one line', () => {
  const one = (kind: 'jump' | 'chain' | 'device', count: number) => ({
    kind,
    count,
    where: '',
    what: '',
  });
  expect(leftoversText([one('jump', 1), one('chain', 2), one('chain', 0), one('device', 9)])).toBe(
    '1 jump, 2 chains with 2 rules, 1 device',
  );
  expect(leftoversText([])).toBe('');
});
