// SPDX-License-Identifier: Apache-2.0
import type { NetworkInterfaceInfo } from 'node:os';
import { expect, test } from 'vitest';
import { bindHosts, type Interfaces } from '../../../src/server/listeners.ts';

const info = (address: string, internal = false): NetworkInterfaceInfo => {
  const common = { address, internal, netmask: '', mac: '', cidr: null };
  return address.includes(':')
    ? { ...common, family: 'IPv6', scopeid: 0 }
    : { ...common, family: 'IPv4' };
};
const BOTH: Interfaces = {
  lo: [info('127.0.0.1', true), info('::1', true)],
  eth0: [info('192.0.2.11'), info('2001:db8::11')],
};
const ONLY_IPV4: Interfaces = { lo: [info('127.0.0.1', true)], eth0: [info('192.0.2.11')] };
const ONLY_IPV6: Interfaces = {
  lo: [info('127.0.0.1', true), info('::1', true)],
  eth0: [info('2001:db8::11')],
};
const NO_IPV4: Interfaces = { lo: [info('::1', true)], eth0: [info('2001:db8::11')] };

test.each([
  ['every address of a node of both families', '0.0.0.0', BOTH, ['::']],
  ['of a node without IPv6', '0.0.0.0', ONLY_IPV4, ['0.0.0.0']],
  ['of a node without IPv4', '0.0.0.0', NO_IPV4, ['::']],
  ['one address', '192.0.2.11', BOTH, ['192.0.2.11']],
  ['loopback of a node of both families', '127.0.0.1', BOTH, ['127.0.0.1']],
  ['of a node whose only IPv4 is loopback', '127.0.0.1', ONLY_IPV6, ['127.0.0.1', '::1']],
  ['of a node without any', '127.0.0.1', NO_IPV4, ['::1']],
  ['of IPv6', '::1', ONLY_IPV4, ['::1']],
])('%s', (_, host, interfaces, hosts) => {
  expect(bindHosts(host, interfaces)).toEqual(hosts);
});
