// SPDX-License-Identifier: Apache-2.0
// The devices of a namespace follow the kernel's notifications; an overrun leads to a new dump.
import { beforeEach, describe, expect, test } from 'vitest';
import { followNetwork } from '../../../../src/sys/netlink/follow.ts';
import type { NetworkFollower } from '../../../../src/sys/netlink/network.ts';
import {
  addressMessage,
  type FakeKernel,
  fakeKernel,
  joined,
  linkMessage,
  message,
  RTM,
  u32,
} from '../../../support/netlink.ts';

const eth0 = { ifindex: 2, name: 'eth0' };
const DUMP_INTERRUPTED = 0x10;

let kernel: FakeKernel;
beforeEach(() => {
  kernel = fakeKernel();
  kernel.links.push(joined(linkMessage({ ifindex: 1, name: 'lo', flags: 9 }), linkMessage(eth0)));
  kernel.addresses.push(addressMessage({ ifindex: 2, address: '192.0.2.1' }));
});

const names = (network: NetworkFollower): string[] =>
  [...network.current().links.values()].map(({ name }) => name);
const addresses = (network: NetworkFollower, ifindex = 2): string[] =>
  (network.current().addresses.get(ifindex) ?? []).map(({ address }) => address);

describe('a follower', () => {
  test('knows everything once it is made, and holds one socket', () => {
    const network = followNetwork(kernel.open);
    expect(names(network)).toEqual(['lo', 'eth0']);
    expect(addresses(network)).toEqual(['192.0.2.1']);
    expect(kernel.counts).toEqual({ dumps: 2, open: 1 });
    network.close();
    expect(kernel.counts.open).toBe(0);
  });

  test('applies what arrives in one turn together, and tells once', () => {
    const network = followNetwork(kernel.open);
    let told = 0;
    const stop = network.listen(() => {
      told++;
    });
    kernel.queue(linkMessage({ ifindex: 3, name: 'veth0', kind: 'veth' }));
    kernel.queue(addressMessage({ ifindex: 3, address: '10.0.0.1' }));
    kernel.queue(linkMessage({ ...eth0, name: 'uplink' }));
    kernel.deliver();
    expect(names(network)).toEqual(['lo', 'uplink', 'veth0']);
    expect(addresses(network, 3)).toEqual(['10.0.0.1']);
    expect(told).toBe(1);
    stop();
    kernel.queue(linkMessage({ ifindex: 3, name: 'veth0', kind: 'veth' }, RTM.DELLINK));
    kernel.deliver();
    expect(names(network)).toEqual(['lo', 'uplink']);
    expect(addresses(network, 3)).toEqual([]);
    expect(told).toBe(1);
  });

  test('tells nothing if nothing has changed', () => {
    const network = followNetwork(kernel.open);
    const before = network.current();
    network.listen(() => expect.unreachable());
    kernel.queue(linkMessage(eth0));
    kernel.queue(addressMessage({ ifindex: 2, address: '192.0.2.1' }));
    kernel.queue(linkMessage({ ...eth0, family: 7 }, RTM.DELLINK));
    kernel.queue(addressMessage({ ifindex: 2, address: '192.0.2.99' }, RTM.DELADDR));
    kernel.queue(message(2, u32(0)));
    kernel.deliver();
    expect(network.current()).toBe(before);
  });

  test('follows masters, flags and addresses', () => {
    const network = followNetwork(kernel.open);
    kernel.queue(linkMessage({ ...eth0, master: 7, flags: 0 }));
    kernel.queue(addressMessage({ ifindex: 2, address: '192.0.2.1', flags: 0x20 }));
    kernel.queue(addressMessage({ ifindex: 2, address: '192.0.2.1', prefixLength: 32 }));
    kernel.deliver();
    expect(network.current().links.get(2)).toMatchObject({ master: 7, isUp: false });
    expect(network.current().addresses.get(2)).toMatchObject([
      { prefixLength: 24, isDeprecated: true },
      { prefixLength: 32, isDeprecated: false },
    ]);
    kernel.queue(linkMessage(eth0));
    kernel.queue(addressMessage({ ifindex: 2, address: '192.0.2.1' }, RTM.DELADDR));
    kernel.deliver();
    expect(network.current().links.get(2)).toMatchObject({ master: undefined, isUp: true });
    expect(network.current().addresses.get(2)).toMatchObject([{ prefixLength: 32 }]);
  });

  test('reads everything again after an overrun, and uses nothing that was sent before it', () => {
    const network = followNetwork(kernel.open);
    kernel.links.splice(0, 1, linkMessage({ ifindex: 9, name: 'new' }));
    kernel.addresses.splice(0);
    kernel.queue(linkMessage({ ifindex: 8, name: 'stale' }));
    kernel.queue('overrun');
    kernel.queue(linkMessage({ ifindex: 7, name: 'stale too' }));
    kernel.deliver();
    expect(names(network)).toEqual(['new']);
    expect(addresses(network)).toEqual([]);
    expect(kernel.counts).toEqual({ dumps: 4, open: 1 });
  });

  test('repeats a dump that was interrupted by a change', () => {
    kernel.flagsOfDumps.push(DUMP_INTERRUPTED, 0, 0, DUMP_INTERRUPTED);
    const network = followNetwork(kernel.open);
    expect(names(network)).toEqual(['lo', 'eth0']);
    expect(kernel.counts.dumps).toBe(6);
  });

  test('stops repeating under constant change', () => {
    kernel.flagsOfDumps.push(...Array(100).fill(DUMP_INTERRUPTED));
    expect(names(followNetwork(kernel.open))).toEqual(['lo', 'eth0']);
    expect(kernel.counts.dumps).toBe(20);
  });

  test('fails if the kernel refuses, and leaves no socket open', () => {
    kernel.links.splice(0, 1, message(2, u32(-1)));
    expect(() => followNetwork(kernel.open)).toThrow('errno 1');
    expect(kernel.counts.open).toBe(0);
  });

  test('reads nothing after it was closed', () => {
    const network = followNetwork(kernel.open);
    network.listen(() => expect.unreachable());
    network.close();
    kernel.queue(linkMessage({ ifindex: 3, name: 'veth0' }));
    kernel.deliver();
    expect(names(network)).toEqual(['lo', 'eth0']);
  });
});
