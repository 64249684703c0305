// SPDX-License-Identifier: Apache-2.0
// Devices -> which get programs, why, and with which SNAT addresses.
import { describe, expect, test } from 'vitest';
import { type DevicePolicy, decideDevices } from '../../../../../src/engines/bpf/devices/policy.ts';
import { network } from './networks.ts';

const AUTO: DevicePolicy = { patterns: [], podDevices: undefined };
const L3 = 65_534;

type Spec = Parameters<typeof network>[0][number];

/** `attached, uplink: it is up`, of each device. */
function decided(links: readonly Spec[], policy: Partial<DevicePolicy> = {}) {
  return Object.fromEntries(
    decideDevices(network(links), { ...AUTO, ...policy }).map(
      ({ link, isWanted, role, reason }) => [
        link.name,
        `${isWanted ? 'attached' : 'not attached'}, ${role}: ${reason}`,
      ],
    ),
  );
}

const br0: Spec = { ifindex: 10, name: 'br0', kind: 'bridge' };
const bond0: Spec = { ifindex: 11, name: 'bond0', kind: 'bond' };
const cali: Spec = { ifindex: 12, name: 'cali1', kind: 'veth', isPeerElsewhere: true };
const eth0: Spec = { ifindex: 13, name: 'eth0' };
const eth0Mac = '02:00:00:00:00:0d';
const ownMac = '02:00:00:00:00:0f';

test.each([
  ['no detector, or one by address', undefined, false],
  ['a detector by device', { kind: 'interface-prefix', prefix: 'cali' } as const, true],
])('what comes in by a pod’s device counts as a pod’s: %s', (_, podDevices, isPod) => {
  const [decision] = decideDevices(network([cali]), { ...AUTO, podDevices });
  expect(decision).toMatchObject({ role: 'pod', isPod });
});

describe('without --devices', () => {
  const rows: readonly [what: string, links: readonly Spec[], expected: string][] = [
    ['hardware that is up', [eth0], 'attached, uplink: it is up'],
    ['hardware that is down', [{ ...eth0, isUp: false }], 'not attached, uplink: it is down'],
    [
      'loopback',
      [{ ifindex: 1, name: 'lo', isLoopback: true, type: 772 }],
      'not attached, uplink: the loopback device has only traffic of the node itself',
    ],
    [
      'a dummy device',
      [{ ...eth0, kind: 'dummy' }],
      'not attached, uplink: a dummy device receives no packets',
    ],
    [
      'an ifb device',
      [{ ...eth0, kind: 'ifb' }],
      'not attached, uplink: an ifb device only shapes the traffic of others',
    ],
    ['a bridge', [br0], 'attached, bridge: it is up'],
    ['a bond', [bond0], 'attached, uplink: it is up'],
    [
      'a port of a bond',
      [{ ...eth0, master: 11 }, bond0],
      'not attached, uplink: it is a port of bond bond0, which is used instead',
    ],
    [
      'a port of a team',
      [
        { ...eth0, master: 11 },
        { ...bond0, kind: 'team' },
      ],
      'not attached, uplink: it is a port of team bond0, which is used instead',
    ],
    [
      'hardware in a bridge',
      [{ ...eth0, master: 10 }, br0],
      'not attached, uplink: it is a port of bridge br0, which is used instead',
    ],
    [
      'hardware in a VRF',
      [
        { ...eth0, master: 14 },
        { ifindex: 14, name: 'vrf0', kind: 'vrf' },
      ],
      'attached, uplink: it is up',
    ],
    ['a port whose master is unknown', [{ ...eth0, master: 99 }], 'attached, uplink: it is up'],
    [
      'a pod’s veth',
      [cali],
      'attached, pod: its peer is in another network namespace, as that of a pod',
    ],
    [
      'a pod’s veth in a bridge',
      [{ ...cali, master: 10 }, br0],
      'attached, pod: its peer is in another network namespace, as that of a pod',
    ],
    [
      'a pod’s veth with a gateway’s address',
      [{ ...cali, addresses: ['10.1.0.1/32', 'fd00::1/128', 'fe80::1/64'] }],
      'attached, pod: its peer is in another network namespace, as that of a pod',
    ],
    [
      'a veth with a subnet: the node is a container',
      [{ ...cali, addresses: ['172.18.0.2/16'] }],
      'attached, uplink: it is up',
    ],
    [
      'a veth whose peer is here',
      [{ ...cali, isPeerElsewhere: false }],
      'attached, uplink: it is up',
    ],
    [
      'a tap device',
      [{ ...eth0, kind: 'tun' }],
      'attached, pod: it is the tap device of a virtual machine',
    ],
    ['a tun device', [{ ...eth0, kind: 'tun', type: L3 }], 'attached, tunnel: it is up'],
    ['VXLAN', [{ ...eth0, kind: 'vxlan' }], 'attached, tunnel: it is up'],
    ['WireGuard', [{ ...eth0, kind: 'wireguard', type: L3 }], 'attached, tunnel: it is up'],
    ['IPIP', [{ ...eth0, kind: 'ipip', type: 768 }], 'attached, tunnel: it is up'],
    ['a VLAN', [{ ...eth0, name: 'eth0.100', kind: 'vlan' }], 'attached, uplink: it is up'],
    [
      'InfiniBand',
      [{ ...eth0, type: 32 }],
      'not attached, uplink: its link layer (type 32) is neither Ethernet nor without headers',
    ],
  ];
  test.each(rows)('%s', (_what, links, expected) => {
    expect(decided(links)[links[0]?.name ?? '']).toBe(expected);
  });

  test('devices without Ethernet headers are known', () => {
    const types = { eth0: 1, tun0: L3, tunl0: 768, ip6tnl0: 769, sit0: 776, gre0: 778, ppp0: 512 };
    const links = Object.entries(types).map(([name, type], index) => ({
      ifindex: index + 1,
      name,
      type,
    }));
    const l3 = decideDevices(network(links), AUTO).filter(({ isL3 }) => isL3);
    expect(l3.map(({ link }) => link.name)).toEqual([
      'gre0',
      'ip6tnl0',
      'ppp0',
      'sit0',
      'tun0',
      'tunl0',
    ]);
  });
});

describe('frames for other MAC addresses', () => {
  const vlan: Spec = { ifindex: 15, name: 'eth0.5', kind: 'vlan', below: 13, mac: eth0Mac };
  const macvlan: Spec = { ...vlan, ifindex: 16, name: 'vrrp0', kind: 'macvlan', mac: ownMac };
  const inner: Spec = { ...vlan, ifindex: 17, name: 'eth0.5.6', below: 15, mac: ownMac };
  const vrf0: Spec = { ifindex: 14, name: 'vrf0', kind: 'vrf' };
  const vxlan: Spec = { ...macvlan, kind: 'vxlan' };
  const own: Spec = { ...eth0, mac: eth0Mac };
  type Row = readonly [what: string, links: readonly Spec[], excluded: string, isDropping: boolean];
  const rows: readonly Row[] = [
    ['a device of no master', [own], '', true],
    ['a port of a bridge', [{ ...own, master: 10 }, br0], '', false],
    ['a port of a bond', [{ ...own, master: 11 }, bond0], '', false],
    ['one whose master is unknown', [{ ...own, master: 99 }], '', false],
    ['a device in a VRF', [{ ...own, master: 14 }, vrf0], '', true],
    ['a bridge', [br0, { ...own, master: 10 }], '', true],
    ['below a device with its own address', [own, macvlan], '', true],
    ['below one with its own address without programs', [own, macvlan], 'vrrp0', false],
    ['below one that is down', [own, { ...macvlan, isUp: false }], '', true],
    ['below one with the same address without programs', [own, vlan], 'eth0.5', true],
    ['below a VLAN in a VLAN without programs', [own, vlan, inner], 'eth0.5.6', false],
    ['below one in another namespace', [own, { ...macvlan, isPeerElsewhere: true }], 'vrrp0', true],
    ['below the other end of a veth', [own, { ...cali, below: 13 }], 'cali1', true],
    ['below a tunnel', [own, vxlan], 'vrrp0', true],
  ];
  test.each(rows)('%s', (_what, links, excluded, isDropping) => {
    const patterns = excluded === '' ? [] : [`!${excluded}`];
    const decisions = decideDevices(network(links), { ...AUTO, patterns });
    const first = decisions.find(({ link }) => link.ifindex === links[0]?.ifindex);
    expect(first?.dropsOthers).toBe(isDropping);
  });
});

describe('answers to what comes in by a device leave by it', () => {
  const vrf0: Spec = { ifindex: 14, name: 'vrf0', kind: 'vrf' };
  type Row = readonly [what: string, links: readonly Spec[], isUplink: boolean];
  const rows: readonly Row[] = [
    ['an uplink', [eth0], true],
    ['a pod', [cali, eth0], false],
    ['a tunnel', [{ ifindex: 30, name: 'flannel.1', kind: 'vxlan' }, eth0], false],
    ['a tunnel between two addresses', [{ ifindex: 30, name: 'ipip0', type: 768 }, eth0], false],
    ['a VPN', [{ ifindex: 30, name: 'wg0', kind: 'wireguard', type: 65_534 }, eth0], true],
    [
      'OpenVPN in the kernel',
      [{ ifindex: 30, name: 'ovpn0', kind: 'ovpn', type: 65_534 }, eth0],
      true,
    ],
    ['a line to a provider', [{ ifindex: 30, name: 'ppp0', kind: 'ppp', type: 512 }, eth0], true],
    ['a bridge of pods', [br0, { ...cali, master: 10 }], false],
    ['a bridge of an uplink', [br0, { ...eth0, master: 10 }], true],
    ['its port', [{ ...eth0, master: 10 }, br0], false],
    ['a port of a bond', [{ ...eth0, master: 11 }, bond0], false],
    ['a bond', [bond0, { ...eth0, master: 11 }], true],
    ['a device in a VRF', [{ ...eth0, master: 14 }, vrf0], true],
  ];
  test.each(rows)('%s: %o', (_what, links, isUplink) => {
    const decisions = decideDevices(network(links), { ...AUTO, patterns: ['*'] });
    const first = decisions.find(({ link }) => link.ifindex === links[0]?.ifindex);
    expect(first?.isUplink).toBe(isUplink);
  });
});

describe('--devices', () => {
  const eth1: Spec = { ifindex: 20, name: 'eth1', master: 10 };
  const dummy: Spec = { ifindex: 21, name: 'dummy0', kind: 'dummy' };
  const lo: Spec = { ifindex: 1, name: 'lo', isLoopback: true, type: 772 };
  const rows: readonly [patterns: string, attached: string][] = [
    ['', 'br0 cali1 eth0'],
    ['auto', 'br0 cali1 eth0'],
    ['eth*', 'eth0 eth1'],
    ['eth?', 'eth0 eth1'],
    ['eth', ''],
    ['*', 'br0 cali1 dummy0 eth0 eth1'],
    ['!eth*', 'br0 cali1'],
    ['auto,dummy0', 'br0 cali1 dummy0 eth0'],
    ['*,!cali*,!dummy0', 'br0 eth0 eth1'],
    ['!eth0,eth0', ''],
    ['lo', ''],
    ['e.h0', ''],
  ];
  test.each(rows)('%s', (patterns, attached) => {
    const links = [br0, cali, eth0, eth1, dummy, lo];
    const policy = {
      patterns: patterns.split(',').filter((one) => one !== ''),
      podDevices: undefined,
    };
    const wanted = decideDevices(network(links), policy).filter(({ isWanted }) => isWanted);
    expect(wanted.map(({ link }) => link.name).join(' ')).toBe(attached);
  });

  test('says by which pattern', () => {
    expect(decided([br0, eth0, eth1], { patterns: ['eth0', '!b*'] })).toEqual({
      br0: 'not attached, bridge: --devices excludes !b*',
      eth0: 'attached, uplink: --devices names eth0',
      eth1: 'not attached, uplink: --devices does not name it',
    });
  });

  test('does not attach to a device that is down', () => {
    expect(decided([{ ...eth0, isUp: false }], { patterns: ['eth0'] })).toEqual({
      eth0: 'not attached, uplink: it is down',
    });
  });
});

describe('an interface detector alone says what is a pod', () => {
  test('by prefix', () => {
    const podDevices = { kind: 'interface-prefix', prefix: 'cali' } as const;
    const other: Spec = { ifindex: 30, name: 'veth9', kind: 'veth', isPeerElsewhere: true };
    expect(decided([cali, other], { podDevices })).toEqual({
      cali1: 'attached, pod: --pod-interface-name-prefix names cali*',
      veth9: 'attached, uplink: it is up',
    });
  });

  test('by bridge: its ports too', () => {
    const podDevices = { kind: 'interface', name: 'br0' } as const;
    expect(decided([br0, { ...cali, master: 10 }, eth0], { podDevices })).toEqual({
      br0: 'attached, pod: --pod-bridge-interface names br0',
      cali1: 'attached, pod: --pod-bridge-interface names br0',
      eth0: 'attached, uplink: it is up',
    });
  });
});

describe('SNAT addresses', () => {
  const rows: readonly [
    what: string,
    addresses: readonly string[],
    IPv4?: string | undefined,
    IPv6?: string,
  ][] = [
    ['none', []],
    ['one of each family', ['192.0.2.1/24', '2001:db8::1/64'], '192.0.2.1', '2001:db8::1'],
    ['the first of IPv4', ['192.0.2.9/24', '192.0.2.1/24 temporary'], '192.0.2.9'],
    ['the lowest of IPv6', ['2001:db8::9/64', '2001:db8::1/64'], undefined, '2001:db8::1'],
    ['not one of link scope', ['169.254.1.1/16 link', 'fe80::1/64 link']],
    [
      'not a single one, if there is another',
      ['192.0.2.9/32', '192.0.2.1/24', 'fd00::1/128', 'fd00::2/64'],
      '192.0.2.1',
      'fd00::2',
    ],
    ['a single one, as of flannel.1', ['10.244.0.0/32', 'fd00::/128'], '10.244.0.0', 'fd00::'],
    ['no deprecated one', ['192.0.2.1/24 deprecated', 'fd00::1/64 deprecated']],
    ['no tentative one', ['fd00::1/64 tentative', 'fd00::2/64'], undefined, 'fd00::2'],
    ['no temporary one of IPv6', ['fd00::1/64 temporary', 'fd00::2/64'], undefined, 'fd00::2'],
  ];
  test.each(rows)('%s', (_what, addresses, IPv4, IPv6) => {
    const [decision] = decideDevices(network([{ ...eth0, addresses }]), AUTO);
    expect(decision?.snat).toEqual({ ...(IPv4 && { IPv4 }), ...(IPv6 && { IPv6 }) });
  });
});
