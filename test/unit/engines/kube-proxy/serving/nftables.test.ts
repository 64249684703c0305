// SPDX-License-Identifier: Apache-2.0
// kube-proxy's table of nftables in its three layouts. That the kernel's answers are read right is
// test/integration/netns/lifecycle/way-back.test.ts's.
import { expect, test } from 'vitest';
import { nftFrontends } from '../../../../../src/engines/kube-proxy/serving/nftables.ts';
import type { MapElement } from '../../../../../src/sys/netlink/nft/map-elements.ts';

const ADDRESS = [10, 96, 0, 10];
const SIX = [0xfd, 0, 0, 0x96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10];
const key = (address: readonly number[], port: number, protocol = 6): Uint8Array =>
  Uint8Array.of(...address, protocol, 0, 0, 0, port >> 8, port & 255, 0, 0);
const to = (key: Uint8Array, chain: string | undefined): MapElement => ({
  ...{ key, chain, value: undefined },
});
const tableOf = (
  lookups: Readonly<Record<string, readonly string[]>>,
  maps: Readonly<Record<string, readonly MapElement[]>>,
  destinations: readonly Uint8Array[] = [],
) => ({
  rules: new Map(
    Object.entries(lookups).map(([chain, of]) => [chain, { lookups: of, destinations }]),
  ),
  elements: (map: string) => maps[map] ?? [],
});

const PORT = 'SUSTUHLJ-default/web/tcp/http';
const FRONTENDS = {
  'service-ips': [
    to(key(ADDRESS, 80), `service-${PORT}`),
    to(key([192, 168, 99, 9], 80), `external-${PORT}`),
  ],
  'no-endpoint-services': [
    to(key([10, 96, 0, 11], 53, 17), 'reject-chain'),
    to(key([192, 168, 99, 9], 80), undefined),
  ],
};

test('backends in the value of a map, as since Kubernetes 1.36', () => {
  const value = Uint8Array.of(10, 1, 1, 11, 0x1f, 0x90, 0, 0);
  const index = new Uint8Array(4);
  const table = tableOf(
    { [`service-${PORT}`]: ['__map3'], [`external-${PORT}`]: [], services: ['service-ips'] },
    { ...FRONTENDS, __map3: [{ key: index, chain: undefined, value }] },
  );
  expect([...nftFrontends('IPv4', table)]).toEqual([
    ['10.96.0.10:80/TCP', ['10.1.1.11:8080']],
    // Clients of the node are served, others find no endpoint here.
    ['192.168.99.9:80/TCP', ['10.1.1.11:8080']],
    ['10.96.0.11:53/UDP', []],
  ]);
});

test('a single backend in the rule itself, as since Kubernetes 1.37', () => {
  const value = Uint8Array.of(10, 1, 1, 12, 0x1f, 0x90, 0, 0);
  const table = tableOf({ [`service-${PORT}`]: [] }, FRONTENDS, [value]);
  expect(nftFrontends('IPv4', table).get('10.96.0.10:80/TCP')).toEqual(['10.1.1.12:8080']);
});

test('backends in the names of chains, as before that; sets of session affinity are none', () => {
  const index = new Uint8Array(4);
  const chain = 'endpoint-QAUFJJ2A-default/web/tcp/http__fd00.1..b/8080';
  const table = tableOf(
    { [`service-${PORT}`]: [`affinity-QAUFJJ2A-default/web/tcp/http__fd00.1..b/8080`, '__map1'] },
    {
      'service-ips': [to(key(SIX, 80), `service-${PORT}`)],
      __map1: [{ key: index, chain, value: undefined }],
    },
  );
  expect([...nftFrontends('IPv6', table)]).toEqual([['[fd00:96::a]:80/TCP', ['[fd00:1::b]:8080']]]);
});

test('no table', () => {
  expect([...nftFrontends('IPv4', tableOf({}, {}))]).toEqual([]);
});
