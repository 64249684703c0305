// SPDX-License-Identifier: Apache-2.0
// rtnetlink messages -> devices and addresses.
import { describe, expect, test } from 'vitest';
import { addressOf, linkOf } from '../../../../src/sys/netlink/records.ts';
import { type Message, messagesIn } from '../../../../src/sys/netlink/wire.ts';
import {
  addressMessage,
  attribute,
  joined,
  linkMessage,
  message,
  RTM,
  u32,
} from '../../../support/netlink.ts';

const only = (datagram: Uint8Array): Message => {
  const [first] = messagesIn(datagram);
  if (first === undefined) throw new Error('no message');
  return first;
};

describe('a link', () => {
  test('has name, type, kind, master and where its peer is', () => {
    const bytes = linkMessage({
      ifindex: 70_000,
      name: 'veth1a2b3c4d5e6',
      flags: 0x1003,
      kind: 'veth',
      master: 4,
      peerNamespace: 0,
    });
    expect(linkOf(only(bytes))).toEqual({
      ifindex: 70_000,
      name: 'veth1a2b3c4d5e6',
      type: 1,
      isUp: true,
      isLoopback: false,
      kind: 'veth',
      master: 4,
      isPeerElsewhere: true,
      mac: undefined,
      below: undefined,
      mtu: 0,
    });
  });

  test('of a VLAN has the tag of its frames, unless they have priorities of their own', () => {
    const vlan = { ifindex: 4, name: 'eth0.7', kind: 'vlan' };
    const id = attribute(1, [7, 1]);
    const of = (...data: number[]) => linkOf(only(linkMessage({ ...vlan, data })))?.tag;
    expect(of(...id)).toBe(0x8100_0107);
    expect(of(...id, ...attribute(5, [0x88, 0xa8]))).toBe(0x88a8_0107);
    expect(of(...id, ...attribute(3, attribute(1, [0, 0, 0, 0, 3, 0, 0, 0])))).toBeUndefined();
    expect(of()).toBeUndefined();
    expect(linkOf(only(linkMessage({ ...vlan, kind: 'macvlan', data: id })))?.tag).toBeUndefined();
  });

  test('of hardware has no kind; a tun device has no link layer', () => {
    const hardware = linkOf(only(linkMessage({ ifindex: 2, name: 'eth0', flags: 0 })));
    expect(hardware).toMatchObject({ kind: undefined, master: undefined, isUp: false });
    const tun = linkMessage({ ifindex: 3, name: 'tun0', type: 65_534, kind: 'tun' });
    expect(linkOf(only(tun))).toMatchObject({ type: 65_534, kind: 'tun', isPeerElsewhere: false });
  });

  test.each([
    ['a bridge says that a port left', linkMessage({ ifindex: 2, name: 'v1', family: 7 })],
    ['a wireless event', linkMessage({ ifindex: 2, name: 'wlan0', isWireless: true })],
    ['no name', message(RTM.NEWLINK, Array(16).fill(0))],
    ['cut in its fixed part', message(RTM.NEWLINK, [0, 0, 1, 0])],
  ])('is not read from a message that is about something else: %s', (_why, bytes) => {
    expect(linkOf(only(bytes))).toBeUndefined();
  });
});

describe('an address', () => {
  const rows: readonly [string, Parameters<typeof addressMessage>[0], object][] = [
    ['IPv4', { ifindex: 2, address: '192.0.2.1' }, { family: 'IPv4', prefixLength: 24 }],
    ['IPv6', { ifindex: 2, address: '2001:db8::1' }, { family: 'IPv6', prefixLength: 64 }],
    [
      'its own one of a point-to-point device, not the peer’s',
      { ifindex: 2, address: '10.0.0.1', peer: '10.0.0.2' },
      { address: '10.0.0.1' },
    ],
    ['global', { ifindex: 2, address: '192.0.2.1' }, { isGlobal: true }],
    ['of site scope', { ifindex: 2, address: '10.0.0.1', scope: 200 }, { isGlobal: true }],
    ['of link scope', { ifindex: 2, address: 'fe80::1', scope: 253 }, { isGlobal: false }],
    ['of host scope', { ifindex: 1, address: '127.0.0.1', scope: 254 }, { isGlobal: false }],
    ['deprecated', { ifindex: 2, address: 'fd00::1', flags: 0x20 }, { isDeprecated: true }],
    ['tentative', { ifindex: 2, address: 'fd00::1', flags: 0x40 }, { isTentative: true }],
    ['a duplicate', { ifindex: 2, address: 'fd00::1', flags: 0x08 }, { isTentative: true }],
    ['temporary', { ifindex: 2, address: 'fd00::1', flags: 0x101 }, { isTemporary: true }],
    [
      'permanent',
      { ifindex: 2, address: 'fd00::1', flags: 0x280 },
      { isDeprecated: false, isTentative: false, isTemporary: false },
    ],
  ];
  test.each(rows)('%s', (_name, spec, expected) => {
    expect(addressOf(only(addressMessage(spec)))).toMatchObject({
      address: spec.address,
      ...expected,
    });
  });

  test('of another family is none', () => {
    expect(addressOf(only(message(RTM.NEWADDR, [28, 0, 0, 0, ...u32(2)])))).toBeUndefined();
  });
});

describe('a datagram', () => {
  test('has several messages', () => {
    const both = joined(
      linkMessage({ ifindex: 1, name: 'lo' }),
      linkMessage({ ifindex: 2, name: 'eth0' }),
    );
    expect([...messagesIn(both)].map((one) => linkOf(one)?.name)).toEqual(['lo', 'eth0']);
  });

  test('that is cut anywhere gives whole messages only, and never fails', () => {
    const first = linkMessage({ ifindex: 1, name: 'lo', kind: 'veth' });
    const bytes = joined(first, linkMessage({ ifindex: 2, name: 'eth0' }));
    for (let length = 0; length < bytes.length; length++) {
      const names = [...messagesIn(bytes.subarray(0, length))].map((one) => linkOf(one)?.name);
      expect(names).toEqual(length < first.length ? [] : ['lo']);
    }
  });

  test('attributes of any length are read within the message', () => {
    const bytes = linkMessage({ ifindex: 1, name: 'eth0', kind: 'veth', master: 7 });
    for (let at = 32; at + 1 < bytes.length; at++) {
      for (const value of [0, 1, 5, 255]) {
        const broken = bytes.slice();
        broken[at] = value;
        expect(() => linkOf(only(broken))).not.toThrow();
      }
    }
  });
});
