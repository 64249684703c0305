// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import {
  acceptedAddresses,
  createNodeAddresses,
} from '../../../../src/engines/bpf/rows/satellites/node.ts';
import type { Tables } from '../../../../src/engines/bpf/state/tables.ts';
import type { NodeAddress } from '../../../../src/engines/dataplane.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { createMemoryTables } from '../../../support/tables/memory.ts';
import { planOf } from './plans.ts';

const LOCAL: readonly NodeAddress[] = [
  { family: 'IPv4', address: '127.0.0.1' },
  { family: 'IPv4', address: '192.0.2.11' },
  { family: 'IPv4', address: '172.20.0.1' },
  { family: 'IPv6', address: '::1' },
  { family: 'IPv6', address: '2001:db8::11' },
];

const accepted = (nodePortAddresses: Plan['nodePortAddresses']): readonly string[] =>
  acceptedAddresses({ ...planOf(), nodePortAddresses }, LOCAL).map(({ address }) => address);

test('all means every local address but the IPv6 loopback', () => {
  expect(accepted({ IPv4: 'all', IPv6: 'all' })).toEqual([
    '127.0.0.1',
    '192.0.2.11',
    '172.20.0.1',
    '2001:db8::11',
  ]);
});

test('prefixes choose, per family', () => {
  expect(accepted({ IPv4: ['192.0.2.0/24'], IPv6: [] })).toEqual(['192.0.2.11']);
});

const ALL = planOf();
const SIZES = { frontends: 4, backends: 4, slotBlocks: 4, services: 4 };
const addressesIn = ({ nodeAddress }: Tables) =>
  nodeAddress.IPv4.readAll().map(({ key, value }) => [key.join('.'), value[0]]);

test('the table holds exactly the accepted addresses, loopback marked as such', () => {
  const tables = createMemoryTables(SIZES);
  const { follow } = createNodeAddresses(tables);
  expect(follow(ALL, LOCAL.slice(0, 2))).toEqual([]);
  expect(addressesIn(tables)).toEqual([
    ['127.0.0.1', 2],
    ['192.0.2.11', 1],
  ]);
  follow(ALL, LOCAL.slice(1, 3));
  expect(addressesIn(tables)).toEqual([
    ['192.0.2.11', 1],
    ['172.20.0.1', 1],
  ]);
});

test('a wrong scope is repaired, and an address that cannot be removed is reported until it is', () => {
  const tables = createMemoryTables(SIZES);
  const held = tables.nodeAddress.IPv4;
  held.put([Uint8Array.of(192, 0, 2, 11)], [Uint8Array.of(2, 0, 0, 0)]);
  const { follow } = createNodeAddresses(tables);
  expect(follow(ALL, LOCAL.slice(1, 2))).toEqual([]);
  expect(addressesIn(tables)).toEqual([['192.0.2.11', 1]]);
  const remove = held.delete;
  Object.assign(held, { delete: () => [{ index: 0, code: 'EPERM' }] });
  const failure = {
    text: 'node address 192.0.2.11',
    code: 'WRITE_FAILED',
    reason: expect.stringContaining('still answer'),
  };
  const none: readonly NodeAddress[] = [];
  expect(follow(ALL, none)).toMatchObject([failure]);
  expect(follow(ALL, none)).toMatchObject([failure]);
  Object.assign(held, { delete: remove });
  expect([follow(ALL, none), addressesIn(tables)]).toEqual([[], []]);
});

test('an audit repairs and tells what somebody else has changed, not what the plan has', () => {
  const tables = createMemoryTables(SIZES);
  const { follow, audit } = createNodeAddresses(tables);
  follow(ALL, LOCAL);
  const held = tables.nodeAddress.IPv4;
  held.delete([Uint8Array.of(192, 0, 2, 11)]);
  held.put([Uint8Array.of(192, 0, 2, 99)], [Uint8Array.of(1, 0, 0, 0)]);
  expect(audit(ALL, LOCAL.slice(1))).toEqual({
    drift: [
      {
        id: { kind: 'node-address', family: 'IPv4', address: '192.0.2.11' },
        text: 'node address 192.0.2.11 is missing',
      },
      {
        id: { kind: 'node-address', family: 'IPv4', address: '192.0.2.99' },
        text: 'node address 192.0.2.99 does not answer NodePorts',
      },
    ],
    failed: [],
  });
  expect(addressesIn(tables).sort()).toEqual([
    ['172.20.0.1', 1],
    ['192.0.2.11', 1],
  ]);
});
