// SPDX-License-Identifier: Apache-2.0
// The addresses of this node: those of devices that are up, without link-local ones of IPv6.
import { expect, test } from 'vitest';
import { followNetwork } from '../../../../src/sys/netlink/follow.ts';
import { nodeAddressesOf, withoutAddresses } from '../../../../src/sys/netlink/node-addresses.ts';
import { addressMessage, fakeKernel, linkMessage, RTM } from '../../../support/netlink.ts';

function start() {
  const kernel = fakeKernel();
  kernel.links.push(
    linkMessage({ ifindex: 1, name: 'lo', flags: 9 }),
    linkMessage({ ifindex: 2, name: 'eth0' }),
    linkMessage({ ifindex: 3, name: 'off', flags: 0 }),
  );
  for (const [ifindex, address] of [
    [1, '127.0.0.1'],
    [2, '192.0.2.1'],
    [2, 'fe80::1'],
    [2, '2001:db8::1'],
    [3, '192.0.2.3'],
  ] as const) {
    kernel.addresses.push(addressMessage({ ifindex, address }));
  }
  const addresses = nodeAddressesOf(followNetwork(kernel.open));
  let told = 0;
  addresses.listen(() => {
    told++;
  });
  return {
    texts: () => addresses.current().map(({ address }) => address),
    addresses,
    told: () => told,
    send: (...messages: readonly Uint8Array[]) => {
      for (const message of messages) kernel.queue(message);
      kernel.deliver();
    },
  };
}

test('are those of devices that are up, each once', () => {
  const { texts, send } = start();
  expect(texts()).toEqual(['127.0.0.1', '192.0.2.1', '2001:db8::1']);
  send(linkMessage({ ifindex: 3, name: 'off' }));
  send(addressMessage({ ifindex: 3, address: '192.0.2.1', prefixLength: 32 }));
  expect(texts()).toEqual(['127.0.0.1', '192.0.2.1', '2001:db8::1', '192.0.2.3']);
});

test('are told of when one comes or goes, and not when a device changes otherwise', () => {
  const { addresses, told, send } = start();
  const before = addresses.current();
  send(linkMessage({ ifindex: 2, name: 'uplink' }));
  send(linkMessage({ ifindex: 9, name: 'veth0' }));
  send(addressMessage({ ifindex: 3, address: '192.0.2.4' }));
  expect(addresses.current()).toBe(before);
  expect(told()).toBe(0);
  send(addressMessage({ ifindex: 2, address: '192.0.2.9' }));
  expect(told()).toBe(1);
  send(addressMessage({ ifindex: 2, address: '192.0.2.9' }, RTM.DELADDR));
  expect(told()).toBe(2);
  send(linkMessage({ ifindex: 2, name: 'uplink', flags: 0 }));
  expect(addresses.current().map(({ address }) => address)).toEqual(['127.0.0.1']);
});

test('those that the node has for the sake of Services are left out, also when others come', () => {
  const { addresses, send } = start();
  const rest = withoutAddresses(addresses, ['192.0.2.1', '192.0.2.3']);
  const texts = () => rest.current().map(({ address }) => address);
  expect(texts()).toEqual(['127.0.0.1', '2001:db8::1']);
  send(linkMessage({ ifindex: 3, name: 'off' }));
  send(addressMessage({ ifindex: 2, address: '192.0.2.9', prefixLength: 32 }));
  expect(texts()).toEqual(['127.0.0.1', '2001:db8::1', '192.0.2.9']);
});
