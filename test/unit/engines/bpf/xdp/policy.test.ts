// SPDX-License-Identifier: Apache-2.0
// Devices and --xdp -> which forward by XDP, and why.
import { describe, expect, test } from 'vitest';
import { decideDevices } from '../../../../../src/engines/bpf/devices/policy.ts';
import { candidatesOf } from '../../../../../src/engines/bpf/xdp/candidates.ts';
import { askedFor, decideXdp } from '../../../../../src/engines/bpf/xdp/policy.ts';
import { type LinkSpec, network } from '../devices/networks.ts';

const eth0: LinkSpec = { ifindex: 2, name: 'eth0' };
const veth: LinkSpec = { ifindex: 3, name: 'v0', kind: 'veth', addresses: ['192.0.2.1/24'] };
const pod: LinkSpec = { ifindex: 4, name: 'cali1', kind: 'veth', isPeerElsewhere: true };
const vlan: LinkSpec = { ifindex: 5, name: 'eth0.7', kind: 'vlan', below: 2 };

/** `both: --xdp has auto`, of the first device. */
function decided(links: readonly LinkSpec[], entries: readonly string[], patterns: string[] = []) {
  const all = network(links);
  const name = links[0]?.name;
  const [decision] = decideDevices(all, { patterns, podDevices: undefined }).filter(
    ({ link }) => link.name === name,
  );
  const { use, reason } = decideXdp(decision!, all, entries);
  return `${use}: ${reason}`;
}

describe('what is asked for', () => {
  test.each([
    [[], 'off', '--xdp has off'],
    [['auto'], 'auto', '--xdp has auto'],
    [['native', 'eth1=off'], 'native', '--xdp has native'],
    [['eth0=off', 'auto'], 'off', '--xdp has eth0=off'],
    [['auto', 'eth*=native', 'eth0=off'], 'off', '--xdp has eth0=off'],
    [['auto', 'eth0=off', 'eth*=native'], 'native', '--xdp has eth*=native'],
    [['eth?=native'], 'native', '--xdp has eth?=native'],
    [['eth=native'], 'off', '--xdp has off'],
  ] as const)('%j of eth0: %s', (entries, mode, reason) => {
    expect(askedFor('eth0', entries)).toMatchObject({ mode, reason });
  });
});

describe('a device', () => {
  const rows: readonly (readonly [string, readonly LinkSpec[], readonly string[], string])[] = [
    ['by default', [eth0], ['off'], 'none: --xdp has off'],
    ['a network card', [eth0], ['auto'], 'both: --xdp has auto'],
    ['a network card, native', [eth0], ['native'], 'both: --xdp has native'],
    ['excluded', [eth0], ['auto', 'eth0=off'], 'none: --xdp has eth0=off'],
    [
      'virtual, auto',
      [veth],
      ['auto'],
      'none: it is a virtual device (veth), whose senders may leave checksums and segments to others: --xdp NAME=native if they do not',
    ],
    ['virtual, native', [veth], ['native'], 'both: --xdp has native'],
    ['virtual, named', [veth], ['v0=native'], 'both: --xdp has v0=native'],
    [
      'of a pod, native for all',
      [pod],
      ['native'],
      'none: it leads to a pod: only --xdp NAME=native sends to it, past the filters of its packets',
    ],
    [
      'of a pod, named but auto',
      [pod],
      ['cali1=auto'],
      'none: it leads to a pod: only --xdp NAME=native sends to it, past the filters of its packets',
    ],
    ['of a pod, named', [pod], ['cali*=native'], 'send: --xdp has cali*=native'],
    [
      'without Ethernet',
      [{ ifindex: 6, name: 'tun0', kind: 'tun', type: 65_534 }],
      ['native'],
      'none: its packets have no Ethernet header',
    ],
    [
      'a bridge',
      [{ ifindex: 6, name: 'br0', kind: 'bridge' }],
      ['native'],
      'none: a bridge has no driver of its own',
    ],
    [
      'a tunnel',
      [{ ifindex: 6, name: 'vx0', kind: 'vxlan' }],
      ['vx0=native'],
      'none: a tunnel has no driver of its own',
    ],
    [
      'a VLAN',
      [vlan, eth0],
      ['eth0.7=native'],
      'none: a VLAN has no driver of its own: its frames pass the device below',
    ],
    [
      'below VLANs',
      [eth0, vlan],
      ['native'],
      'none: VLANs are on it, and a driver may take their tags off before XDP: `ethtool -K NAME rxvlan off`, then --xdp NAME=native',
    ],
    ['below VLANs, named', [eth0, vlan], ['eth0=native'], 'both: --xdp has eth0=native'],
    ['a bond', [{ ifindex: 6, name: 'bond0', kind: 'bond' }], ['auto'], 'both: --xdp has auto'],
    [
      'a bond of virtual devices',
      [
        { ifindex: 6, name: 'bond0', kind: 'bond' },
        { ...veth, master: 6 },
      ],
      ['auto'],
      'none: it is a virtual device (veth), whose senders may leave checksums and segments to others: --xdp NAME=native if they do not',
    ],
    [
      'a port of a bond',
      [
        { ...eth0, master: 6 },
        { ifindex: 6, name: 'bond0', kind: 'bond' },
      ],
      ['eth0=native'],
      'none: it has no packet programs',
    ],
    ['down', [{ ...eth0, isUp: false }], ['auto'], 'none: it has no packet programs'],
  ];
  test.each(rows)('%s', (_, links, entries, expected) => {
    expect(decided(links, entries)).toBe(expected);
  });

  test.each([
    ['bridge', 'none: it is a port of m0, which forwards'],
    ['team', 'none: it is a port of m0, which forwards'],
    ['vrf', 'both: --xdp has eth0=native'],
  ])('a port of a %s that --devices names', (kind, expected) => {
    const links = [
      { ...eth0, master: 6 },
      { ifindex: 6, name: 'm0', kind },
    ];
    expect(decided(links, ['eth0=native'], ['eth0'])).toBe(expected);
  });

  test('that --devices leaves out', () => {
    expect(decided([eth0], ['auto'], ['!eth0'])).toBe('none: it has no packet programs');
  });
});

describe('a VLAN', () => {
  const tagged: LinkSpec = { ...vlan, tag: 0x8100_0007 };
  const rows: readonly (readonly [string, readonly LinkSpec[], readonly string[], string])[] = [
    ['of a device with XDP', [eth0, tagged], ['eth0=native'], 'above: its frames pass eth0'],
    [
      'of one without',
      [eth0, tagged],
      ['eth0.7=native'],
      'none: its frames pass eth0, where --xdp has off',
    ],
    [
      'of one that may take tags off',
      [eth0, tagged],
      ['auto'],
      'none: its frames pass eth0, where VLANs are on it, and a driver may take their tags off before XDP: `ethtool -K NAME rxvlan off`, then --xdp NAME=native',
    ],
    ['left out', [eth0, tagged], ['eth0=native', 'eth0.*=off'], 'none: --xdp has eth0.*=off'],
    [
      'with priorities',
      [eth0, vlan],
      ['eth0=native'],
      'none: it gives priorities to its frames, which XDP does not',
    ],
    [
      'of a VLAN',
      [{ ...eth0, kind: 'vlan', below: 9 }, tagged],
      ['eth*=native'],
      'none: its frames pass eth0, where a VLAN has no driver of its own: its frames pass the device below',
    ],
    [
      'of another namespace',
      [eth0, { ...tagged, isPeerElsewhere: true }],
      ['eth0=native'],
      'none: the device below it is in another network namespace',
    ],
    [
      'down',
      [eth0, { ...tagged, isUp: false }],
      ['eth0=native'],
      'none: it has no packet programs',
    ],
  ];
  const candidate = (links: readonly LinkSpec[], entries: readonly string[], name = 'eth0.7') => {
    const all = network(links);
    const decisions = decideDevices(all, { patterns: [], podDevices: undefined });
    return candidatesOf(
      decisions.map((one) => ({ ...one, isAttached: one.isWanted })),
      all,
      entries,
    ).find((one) => one.name === name);
  };
  test.each(rows)('%s', (_, links, entries, expected) => {
    const { use, reason } = candidate(links, entries)!;
    expect(`${use}: ${reason}`).toBe(expected);
  });

  test('has the device below it and its tag, a bond its ports', () => {
    expect(candidate([eth0, tagged], ['eth0=native'])).toMatchObject({
      below: { ifindex: 2, tag: 0x8100_0007 },
    });
    const bond: LinkSpec = { ifindex: 6, name: 'bond0', kind: 'bond' };
    expect(candidate([{ ...eth0, master: 6 }, bond], ['auto'], 'bond0')).toMatchObject({
      ports: [2],
    });
  });
});
