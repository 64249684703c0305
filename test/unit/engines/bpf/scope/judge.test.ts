// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import {
  judged,
  unlookedState,
  type Way,
  wayOf,
} from '../../../../../src/engines/bpf/scope/judge.ts';
import type { Link } from '../../../../../src/sys/netlink/records.ts';

const link = (ifindex: number, change: Partial<Link>): Link => ({
  ...{ ifindex, name: `d${ifindex}`, type: 1, isUp: true, isLoopback: false, kind: 'veth' },
  ...{ master: undefined, isPeerElsewhere: true, mac: undefined, below: undefined, mtu: 1500 },
  ...{ tag: undefined, ...change },
});
const network = (...links: readonly Link[]) => ({
  links: new Map(links.map((one) => [one.ifindex, one])),
});

const LO = link(1, { isLoopback: true, kind: undefined, isPeerElsewhere: false });
const NODE = network(LO, link(7, { below: 2 }), link(8, { below: 2 }));
const DEVICES = [
  { ifindex: 7, isServed: true },
  { ifindex: 8, isServed: false },
];

describe('how the packets of a namespace leave it', () => {
  test.each<[string, Way, readonly Link[]]>([
    ['a pair with programs', 'served', [LO, link(2, { below: 7 })]],
    ['a pair whose end on the node has none', 'unserved', [LO, link(2, { below: 8 })]],
    ['a pair that ends in another pod', 'nested', [LO, link(2, { below: 9 })]],
    [
      'a pair that ends there at the number of a device of the node',
      'nested',
      [link(3, { below: 7 })],
    ],
    ['macvlan', 'unserved', [LO, link(2, { kind: 'macvlan', below: 7 })]],
    [
      'a second network beside the first',
      'served',
      [link(3, { kind: 'macvlan' }), link(2, { below: 7 })],
    ],
    ['a device that is down', 'none', [LO, link(2, { below: 7, isUp: false })]],
  ])('%s: %s', (_, way, links) => {
    expect(wayOf(network(...links), NODE, DEVICES)).toBe(way);
  });
});

const ISTIO = [{ kind: 'REDIRECT', chain: 'ISTIO_REDIRECT' }] as const;

test('as packets only what redirects and is translated on its way', () => {
  expect(judged({ redirects: ISTIO, way: 'served' }, 3)).toEqual({
    ...{ tgid: 3, state: 'packets', found: ['REDIRECT', 'Istio'] },
  });
  expect(judged({ redirects: ISTIO, way: 'unserved' }, 3)).toEqual({
    ...{ tgid: 3, state: 'sockets', found: ['REDIRECT', 'Istio', 'no-way'] },
  });
  expect(judged({ redirects: [], way: 'served' }, 3)).toMatchObject({
    state: 'sockets',
    found: [],
  });
});

test('a new namespace is served as packets only beside others that are, where that serves all', () => {
  const mesh = { way: 'served', isAsPackets: true, hasAsked: false } as const;
  const plain = (way: Way) => ({ way, isAsPackets: false, hasAsked: true });
  expect(unlookedState([])).toBe('sockets');
  expect(unlookedState([plain('served')])).toBe('sockets');
  expect(unlookedState([mesh, plain('served'), plain('nested'), plain('none')])).toBe('packets');
  expect(unlookedState([mesh, plain('unserved')])).toBe('sockets');
  expect(unlookedState([mesh, { ...plain('unserved'), hasAsked: false }])).toBe('packets');
});
