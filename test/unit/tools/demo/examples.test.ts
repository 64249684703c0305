// SPDX-License-Identifier: Apache-2.0
// The manifests a newcomer runs first: what the demo needs is in them, and on no real node do they take
// over an address that anything uses (10.96.0.10 is the DNS Service of every kubeadm cluster).
import ipaddr from 'ipaddr.js';
import { expect, test } from 'vitest';
import { readManifests } from '../../../../src/source/manifests/manifests.ts';
import { readExamples, serverPorts } from '../../../../tools/demo/services.ts';

/** RFC 5737 and RFC 3849. */
const DOCUMENTATION = ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '2001:db8::/32'].map(
  (range) => ipaddr.parseCIDR(range),
);

const isDocumentation = (text: string): boolean => {
  const address = ipaddr.parse(text);
  return DOCUMENTATION.some(
    ([range, bits]) => range.kind() === address.kind() && address.match(range, bits),
  );
};

/** Every text in an object that is an address or a prefix. */
function addresses(value: unknown): readonly string[] {
  if (typeof value === 'string') {
    const [address = ''] = value.split('/');
    return ipaddr.isValid(address) ? [address] : [];
  }
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(addresses) : [];
}

test('every address of the examples is one of the documentation ranges', async () => {
  const { changes } = await readManifests('examples');
  const all = changes.flatMap((change) => (change.type === 'put' ? addresses(change.object) : []));
  expect(all.length).toBeGreaterThan(20);
  expect(all.filter((address) => !isDocumentation(address))).toEqual([]);
});

test('so is every Service address of the demo, which serves nothing but Services from them', () => {
  const examples = readExamples();
  const { web, dns, cart, empty } = examples.services;
  for (const { clusterIps } of [web, dns, cart, empty]) {
    expect(clusterIps.filter((address) => !isDocumentation(address))).toEqual([]);
  }
  expect(web.clusterIps.map((address) => address.includes(':'))).toEqual([false, true]);
  expect(empty.clusterIps).toHaveLength(2);
  const protocols = [web, dns, cart].map(({ slicePort }) => slicePort.protocol);
  expect(protocols).toEqual(['TCP', 'UDP', 'TCP']);
  expect(serverPorts(examples)).toEqual([web.slicePort.port, dns.slicePort.port]);
  expect(new Set(examples.manifests.map(({ kind }) => kind))).toEqual(new Set(['Service']));
});
