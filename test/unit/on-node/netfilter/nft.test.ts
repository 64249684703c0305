// SPDX-License-Identifier: Apache-2.0
// Filters of nf_tables as `nft -j list ruleset` prints them.
import { expect, test } from 'vitest';
import { findObstacle } from '../../../../src/on-node/netfilter/obstacle.ts';

const FACTS = {
  podRanges: ['10.1.0.0/16'],
  frontends: [
    { address: '192.0.2.11', port: 30_080 },
    { address: '2001:db8::11', port: 30_080 },
  ],
};
const match = (left: object, right: unknown, op = '=='): object => ({ match: { op, left, right } });
const PORT = { payload: { protocol: 'tcp', field: 'dport' } };
const INTERFACE = { meta: { key: 'iifname' } };
const ICMP_TYPE = { payload: { protocol: 'icmp', field: 'type' } };
const DROP = { drop: null };
const ACCEPT = { accept: null };

interface Of {
  readonly hook: string;
  readonly prio: number;
  readonly policy?: string;
  readonly family?: string;
  readonly table?: string;
  readonly name?: string;
  readonly type?: string;
  readonly more?: readonly object[];
}

function found(expressions: readonly (readonly object[])[], of: Of): string | undefined {
  const {
    hook,
    prio,
    policy = 'accept',
    family = 'inet',
    table = 'site',
    name = 'main',
    type = 'filter',
    more = [],
  } = of;
  const own = { family, table };
  const nftables = [
    { metainfo: { version: '1.0.6' } },
    { chain: { ...own, name, type, hook, prio, policy } },
    ...expressions.map((expr, handle) => ({ rule: { ...own, chain: name, handle, expr } })),
    ...more.map((one) => ({ rule: { ...own, ...one } })),
  ];
  const saved = ['iptables-nft', 'ip6tables-nft'].map((program) => ({ program, text: '' }));
  const obstacle = findObstacle({ saved, nft: { nftables } }, FACTS);
  return obstacle && `${obstacle.kind}: ${obstacle.rule}`;
}
const RAW = { hook: 'prerouting', prio: -300 };
const OF_RAW = { ...RAW, family: 'ip', table: 'raw', name: 'PREROUTING' };
const FORWARD = { hook: 'forward', prio: 0 };
const FIRST = 'host-firewall: nftables: chain main of table inet site: rule handle 0 of chain main';

test.each([
  ['a port', [match(PORT, 30_080), DROP]],
  ['a range of ports', [match(PORT, { range: [30_000, 32_767] }), DROP]],
  ['a set of ports', [match(PORT, { set: [22, 30_080] }), DROP]],
  ['a named set', [match(PORT, '@closed'), DROP]],
  [
    'all but some sources',
    [match({ payload: { protocol: 'ip', field: 'saddr' } }, '@friends', '!='), DROP],
  ],
  [
    'an address of the node',
    [match({ payload: { protocol: 'ip', field: 'daddr' } }, '192.0.2.11'), DROP],
  ],
  ['all but a port', [match(PORT, 22, '!='), DROP]],
  ['all but a set of ports', [match(PORT, { set: [22, 80] }, '!='), DROP]],
  ['all but a range of ports', [match(PORT, { range: [22, 80] }, '!='), DROP]],
  ['all but a named set', [match(PORT, '@open', '!='), DROP]],
  ['all but loopback', [match(INTERFACE, 'lo', '!='), DROP]],
  ['an uplink', [match(INTERFACE, 'br-ex'), DROP]],
  ['interfaces, one of them an uplink', [match(INTERFACE, { set: ['lo', 'br-ex'] }), DROP]],
  ['interfaces by the beginning of their names', [match(INTERFACE, 'lo*'), DROP]],
  ['all but ping', [match({ meta: { key: 'l4proto' } }, 'icmp', '!='), DROP]],
  [
    'all but TCP and UDP',
    [match({ meta: { key: 'l4proto' } }, { set: ['tcp', 'udp'] }, '!='), DROP],
  ],
  ['what is not established', [match({ ct: { key: 'state' } }, 'established', '!='), DROP]],
  ['a map of verdicts', [{ vmap: { key: PORT, data: { set: [[30_080, DROP]] } } }]],
  ['a named map', [{ vmap: { key: PORT, data: '@ports' } }]],
] as const)('prerouting: %s', (_, expr) => {
  expect(found([expr], RAW)).toBe(FIRST);
});

test.each([
  ['another port', [match(PORT, 22), DROP], RAW],
  ['an established connection', [match({ ct: { key: 'state' } }, 'established'), DROP], RAW],
  ['loopback', [match(INTERFACE, 'lo'), DROP], RAW],
  ['all but its port', [match(PORT, 30_080, '!='), DROP], RAW],
  ['other kinds than ping', [match(ICMP_TYPE, 'echo-request', '!='), DROP], RAW],
  ['after the translation', [match(PORT, 30_080), DROP], { hook: 'prerouting', prio: 0 }],
  ['of kube-proxy', [match(PORT, 30_080), DROP], { ...RAW, table: 'kube-proxy' }],
  ['of fairlead', [match(PORT, 30_080), DROP], { ...RAW, table: 'fairlead' }],
  ['of iptables-nft, raw', [match(PORT, 30_080), DROP], OF_RAW],
  [
    'of iptables-nft, mangle',
    [match(PORT, 30_080), DROP],
    { ...OF_RAW, table: 'mangle', prio: -150 },
  ],
] as const)('prerouting, of no Service: %s', (_, expr, of) => {
  expect(found([expr], of)).toBeUndefined();
});

test.each([
  ['ports of TCP', match(PORT, 30_080)],
  ['all but a port of TCP', match(PORT, 22, '!=')],
  ['other kinds than ping', match(ICMP_TYPE, 'echo-request', '!=')],
  [
    'IPv4 from elsewhere',
    match(
      { payload: { protocol: 'ip', field: 'daddr' } },
      { prefix: { addr: '10.0.0.0', len: 8 } },
      '!=',
    ),
  ],
])('packets of other protocols go on: %s', (_, what) => {
  expect(found([[what, ACCEPT], [DROP]], RAW)).toContain('rule handle 1');
});

test.each([
  ['another chain', match(PORT, 30_080), { name: 'early' }],
  ['another priority', match(PORT, 30_080), { prio: -310 }],
  ['in the table filter', match(PORT, 30_080), { table: 'filter' }],
  ['in a table of IPv6', match(PORT, 30_080), { family: 'ip6', table: 'mangle', name: 'main' }],
  ['a set', match(PORT, { set: [22, 30_080] }), {}],
  ['a named set', match(PORT, '@closed'), {}],
  ['a match that iptables has not', match({ ct: { key: 'state' } }, 'new'), {}],
])('a table with a name of iptables that somebody has written: %s', (_, what, of) => {
  expect(found([[what, DROP]], { ...OF_RAW, ...of })).toMatch(
    /^host-firewall: nftables: .* handle 0/,
  );
});

test('its FORWARD', () => {
  const rules = [[match({ ct: { key: 'state' } }, { set: ['established', 'related'] }), ACCEPT]];
  const of = { ...FORWARD, policy: 'drop', family: 'ip', table: 'filter', name: 'FORWARD' };
  expect(found([], of)).toBeUndefined();
  expect(found(rules, of)).toBe(
    'forward: nftables: chain FORWARD of table ip filter: its policy is DROP',
  );
});

test.each([
  ['quota', { quota: { val: 5, val_unit: 'mbytes' } }],
  ['ct count', { 'ct count': { val: 10 } }],
  ['xt', { xt: { type: 'match', name: 'addrtype' } }],
])('what holds for some packets only: %s', (_, what) => {
  expect(found([[what, ACCEPT], [DROP]], RAW)).toContain('rule handle 1');
});

test('a chain of the type nat: before the translation by proxies', () => {
  const of = { hook: 'prerouting', type: 'nat' };
  const rules = [[match(PORT, 30_080), DROP]];
  expect(found(rules, { ...of, prio: -110 })).toBe(FIRST);
  expect(found(rules, { ...of, prio: -100 })).toBeUndefined();
});

test.each(['netdev', 'inet'])('at a device, family %s', (family) => {
  const of = { hook: 'ingress', prio: 0, family };
  expect(found([[match(PORT, 30_080), DROP]], of)).toContain(`table ${family} site: rule handle 0`);
  expect(found([], { ...of, policy: 'drop' })).toContain('its policy is DROP');
});

test('a chain that is jumped to', () => {
  const more = [
    { chain: 'ports', handle: 9, expr: [match(PORT, 30_080), DROP], comment: 'closed' },
  ];
  expect(found([[{ jump: { target: 'ports' } }]], { ...RAW, more })).toBe(
    'host-firewall: nftables: chain main of table inet site: rule handle 9 of chain ports (closed)',
  );
});

test.each([
  ['a policy', [], 'drop', true],
  [
    'that accepts what netfilter has translated',
    [[match({ ct: { key: 'status' } }, 'dnat'), ACCEPT]],
    'drop',
    true,
  ],
  [
    'a last rule that rejects',
    [
      [match({ ct: { key: 'state' } }, { set: ['established', 'related'] }), ACCEPT],
      [{ reject: null }],
    ],
    'accept',
    true,
  ],
  [
    'that accepts pods',
    [
      [
        match(
          { payload: { protocol: 'ip', field: 'daddr' } },
          { prefix: { addr: '10.1.0.0', len: 16 } },
        ),
        ACCEPT,
      ],
      [
        match(
          { payload: { protocol: 'ip', field: 'saddr' } },
          { prefix: { addr: '10.1.0.0', len: 16 } },
        ),
        ACCEPT,
      ],
    ],
    'drop',
    false,
  ],
  [
    'one pod',
    [[match({ payload: { protocol: 'ip', field: 'daddr' } }, '10.1.1.5'), DROP]],
    'accept',
    false,
  ],
] as const)('forward: %s', (_, rules, policy, isFound) => {
  expect(found(rules, { ...FORWARD, policy }) !== undefined).toBe(isFound);
});
