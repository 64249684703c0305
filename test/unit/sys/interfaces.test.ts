// SPDX-License-Identifier: Apache-2.0
// Addresses of the machine without the addon: as Node lists them, and again when they change.
import type { networkInterfaces } from 'node:os';
import { afterEach, expect, test, vi } from 'vitest';
import { followInterfaces } from '../../../src/sys/interfaces.ts';
import { nodeAddressesOf } from '../../../src/sys/netlink/node-addresses.ts';

afterEach(() => void vi.useRealTimers());

const lo = {
  ...{ address: '127.0.0.1', netmask: '255.0.0.0', family: 'IPv4' as const },
  ...{ mac: '00:00:00:00:00:00', internal: true, cidr: '127.0.0.1/8' },
};
const of = (address: string) => ({ ...lo, address, internal: false, cidr: `${address}/24` });

test('addresses of all devices are there, and listeners hear of a change alone', () => {
  vi.useFakeTimers();
  let interfaces: ReturnType<typeof networkInterfaces> = { lo: [lo], en0: [of('192.0.2.1')] };
  const network = followInterfaces(() => interfaces, 1000);
  const addresses = nodeAddressesOf(network);
  const seen: string[][] = [];
  addresses.listen(() => seen.push(addresses.current().map(({ address }) => address)));
  expect(addresses.current()).toEqual([
    { family: 'IPv4', address: '127.0.0.1' },
    { family: 'IPv4', address: '192.0.2.1' },
  ]);
  vi.advanceTimersByTime(3000);
  expect(seen).toEqual([]);
  interfaces = { lo: [lo], en0: [of('192.0.2.2')] };
  vi.advanceTimersByTime(1000);
  expect(seen).toEqual([['127.0.0.1', '192.0.2.2']]);
  network.close();
  expect(vi.getTimerCount()).toBe(0);
});
