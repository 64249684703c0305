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
const DROP = { drop: null };
const ACCEPT = { accept: null };

interface Of {
  readonly hook: string;
  readonly prio: number;
  readonly policy?: string;
  readonly family?: string;
  readonly table?: string;
  readonly more?: readonly object[];
}

function found(expressions: readonly (readonly object[])[], of: Of): string | undefined {
  const { hook, prio, policy = 'accept', family = 'inet', table = 'site', more = [] } = of;
  const own = { family, table };
  const nftables = [
    { metainfo: { version: '1.0.6' } },
    { chain: { ...own, name: 'main', type: 'filter', hook, prio, policy } },
    ...expressions.map((expr, handle) => ({ rule: { ...own, chain: 'main', handle, expr } })),
    ...more.map((one) => ({ rule: { ...own, ...one } })),
  ];
  const obstacle = findObstacle({ saved: [], nft: { nftables } }, FACTS);
  return obstacle && `${obstacle.kind}: ${obstacle.rule}`;
}
const RAW = { hook: 'prerouting', prio: -300 };
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
  ['a map of verdicts', [{ vmap: { key: PORT, data: { set: [[30_080, DROP]] } } }]],
  ['a named map', [{ vmap: { key: PORT, data: '@ports' } }]],
] as const)('prerouting: %s', (_, expr) => {
  expect(found([expr], RAW)).toBe(FIRST);
});

test.each([
  ['another port', [match(PORT, 22), DROP], RAW],
  ['an established connection', [match({ ct: { key: 'state' } }, 'established'), DROP], RAW],
  ['loopback', [match({ meta: { key: 'iifname' } }, 'lo'), DROP], RAW],
  ['after the translation', [match(PORT, 30_080), DROP], { hook: 'prerouting', prio: 0 }],
  ['of kube-proxy', [match(PORT, 30_080), DROP], { ...RAW, table: 'kube-proxy' }],
] as const)('prerouting, of no Service: %s', (_, expr, of) => {
  expect(found([expr], of)).toBeUndefined();
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
