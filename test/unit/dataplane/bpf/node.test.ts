// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import {
  acceptedAddresses,
  applyNodeAddresses,
} from '../../../../src/dataplane/bpf/sync/satellites/node.ts';
import type { NodeAddress } from '../../../../src/dataplane/dataplane.ts';
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

test('the table holds exactly the accepted addresses, loopback marked as such', () => {
  const tables = createMemoryTables({ frontends: 4, backends: 4, slotBlocks: 4, services: 4 });
  expect(applyNodeAddresses(tables, LOCAL.slice(0, 2))).toEqual([]);
  expect(
    tables.nodeAddress.IPv4.readAll().map(({ key, value }) => [key.join('.'), value[0]]),
  ).toEqual([
    ['127.0.0.1', 2],
    ['192.0.2.11', 1],
  ]);
  applyNodeAddresses(tables, LOCAL.slice(1, 3));
  expect(tables.nodeAddress.IPv4.readAll().map(({ key }) => key.join('.'))).toEqual([
    '192.0.2.11',
    '172.20.0.1',
  ]);
});

test('a wrong scope is repaired, and an address that cannot be removed is reported', () => {
  const tables = createMemoryTables({ frontends: 4, backends: 4, slotBlocks: 4, services: 4 });
  const held = tables.nodeAddress.IPv4;
  held.put([Uint8Array.of(192, 0, 2, 11)], [Uint8Array.of(2, 0, 0, 0)]);
  expect(applyNodeAddresses(tables, LOCAL.slice(1, 2))).toEqual([]);
  expect(held.readAll().map(({ value }) => value[0])).toEqual([1]);
  const refusing = { ...held, delete: () => [{ index: 0, code: 'EPERM' }] };
  const nodeAddress = { ...tables.nodeAddress, IPv4: refusing };
  expect(applyNodeAddresses({ ...tables, nodeAddress }, [])).toMatchObject([
    {
      text: 'node address 192.0.2.11',
      code: 'WRITE_FAILED',
      reason: expect.stringContaining('still answer'),
    },
  ]);
});
