// SPDX-License-Identifier: Apache-2.0
// Sockets whose backend serves the same frontend under another id are left alone.
import { expect, test } from 'vitest';
import { isServed } from '../../../../../src/engines/bpf/stale-sockets/served.ts';
import { decodeStaleSockets } from '../../../../../src/engines/bpf/stale-sockets/socket.ts';
import { createTableSync } from '../../../../../src/engines/bpf/state/table-sync.ts';
import { memoryTables } from '../../../../support/dataplane/memory-dataplane.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from '../plans.ts';
import { type RecordSpec, recordOf } from './records.ts';

const UDP = { protocol: 'UDP' } as const;
const plan = planOf(
  servicePort(
    'dns',
    [clusterIp('10.96.0.10', 53), localNodePort(30_053)],
    [backend('10.1.1.2'), backend('10.1.1.3')],
    UDP,
  ),
  servicePort('dns6', [clusterIp('fd00:96::a', 53)], [backend('fd00:10::2')], {
    ...UDP,
    family: 'IPv6',
  }),
  servicePort('other', [clusterIp('10.96.0.11', 53)], [backend('10.1.1.9')], UDP),
);

const V4 = {
  service: '10.96.0.10',
  backend: '10.1.1.2',
  local: '10.1.1.7',
  family: 'IPv4',
} as const;
const V6 = {
  service: 'fd00:96::a',
  backend: 'fd00:10::2',
  local: 'fd00::7',
  family: 'IPv6',
} as const;

const rows: readonly (readonly [string, RecordSpec, boolean])[] = [
  ['the backend serves', V4, true],
  ['the backend serves, IPv6', V6, true],
  ['a NodePort, by a node’s address', { ...V4, service: '192.0.2.1', servicePort: 30_053 }, true],
  ['a backend that is gone', { ...V4, backend: '10.1.1.4' }, false],
  ['another port of the backend', { ...V4, backendPort: 8081 }, false],
  ['a backend of another Service', { ...V4, backend: '10.1.1.9' }, false],
  ['a frontend that is gone', { ...V4, service: '10.96.0.12' }, false],
  ['another protocol', { ...V4, protocol: 'TCP' }, false],
  ['a backend that is gone, IPv6', { ...V6, backend: 'fd00:10::3' }, false],
];

test.each(rows)('%s', (_, record, expected) => {
  const { apply, ledger } = createTableSync(memoryTables(), () => Promise.resolve());
  apply(plan, plan.services.keys());
  const [socket] = decodeStaleSockets(recordOf(record));
  expect(isServed(ledger, socket!)).toBe(expected);
});

test('a backend that is terminating still serves; after that it does not', () => {
  const { apply, ledger } = createTableSync(memoryTables(), () => Promise.resolve());
  const [socket] = decodeStaleSockets(recordOf(V4));
  const last = [backend('10.1.1.2')];
  const withServing = (serving: typeof last) =>
    planOf(servicePort('dns', [clusterIp('10.96.0.10', 53)], [], { ...UDP, serving }));
  apply(plan, plan.services.keys());
  apply(withServing(last), ['default/dns']);
  expect(isServed(ledger, socket!)).toBe(true);
  apply(withServing([]), ['default/dns']);
  expect(isServed(ledger, socket!)).toBe(false);
});
