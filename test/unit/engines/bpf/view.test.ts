// SPDX-License-Identifier: Apache-2.0
// What is counted of frontends: the short answer for scrapes says what the long one for people does.
import { expect, test } from 'vitest';
import {
  frontendViews,
  portConnections,
  portTraffic,
  snapshotOf,
} from '../../../../src/engines/bpf/inspect/view.ts';
import { encodeFrontendKey } from '../../../../src/engines/bpf/layout/layout.ts';
import { createTableSync } from '../../../../src/engines/bpf/state/table-sync.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
import { createMemoryTables, memoryArray } from '../../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from './plans.ts';

test('connections of frontends, without what refuses other ports', () => {
  const tables = createMemoryTables({ frontends: 16, backends: 16, slotBlocks: 8, services: 8 });
  const dataplane = createTableSync(tables, () => Promise.resolve());
  const backends = [backend('10.1.1.1'), backend('10.1.1.2')];
  const frontends = [clusterIp('10.96.0.10'), clusterIp('10.96.0.11')];
  applyAll(dataplane, planOf(servicePort('web', frontends, backends)));
  const { ledger } = dataplane;
  for (const id of [1, 2, 3, 4]) {
    const view = tables.frontendStat.view(id);
    view.setBigUint64(tables.frontendStat.offset(id), BigInt(10 * id), true);
  }
  const short = [...portConnections(ledger)];
  const long = [...frontendViews(ledger)];
  expect(long.map(({ connections }) => connections)).toEqual([10, 20]);
  expect(short).toEqual([{ port: long[0]?.port, connections: 30, refused: 0, dropped: 0 }]);
  expect(long[0]?.internal).toEqual(['10.1.1.1:8080', '10.1.1.2:8080']);
});

test('packets of a Service port are those of its frontends', () => {
  const tables = createMemoryTables({ frontends: 16, backends: 16, slotBlocks: 8, services: 8 });
  const dataplane = createTableSync(tables, () => Promise.resolve());
  const frontends = [clusterIp('10.96.0.10'), clusterIp('10.96.0.11')];
  applyAll(dataplane, planOf(servicePort('web', frontends, [backend('10.1.1.1')])));
  const of = (packets: number) => ({
    key: packets,
    toBackend: { packets, bytes: 100 * packets },
    toClient: { packets: 2 * packets, bytes: 1000 * packets },
  });
  const totals = new Map([1, 2, 3, 4].map((id) => [id, of(id)]));
  const [web, ...others] = portTraffic(dataplane.ledger, () => totals);
  const [first = 0, second = 0] = snapshotOf(tables).frontends.map(({ id }) =>
    Number(tables.frontend.IPv4.get(encodeFrontendKey(id))?.[0]),
  );
  const shown = snapshotOf(tables, totals).frontends.map(({ toBackend }) => toBackend?.packets);
  expect(shown).toEqual([first, second]);
  const sum = first + second;
  expect(web).toMatchObject({
    port: { namespace: 'default', name: 'web' },
    toBackend: { packets: sum, bytes: 100 * sum },
    toClient: { packets: 2 * sum, bytes: 1000 * sum },
  });
  expect(others).toEqual([]);
  expect([...portTraffic(dataplane.ledger, () => undefined)]).toEqual([]);
  expect([...portTraffic(dataplane.ledger, () => new Map())]).toEqual([]);
});

test('a frontend’s id begins with no packets, whatever frontend had it before', () => {
  const tables = createMemoryTables({ frontends: 16, backends: 16, slotBlocks: 8, services: 8 });
  const traffic = memoryArray('fl_traffic', 16, 32);
  traffic.bytes.fill(1);
  const dataplane = createTableSync({ ...tables, traffic }, () => Promise.resolve());
  applyAll(dataplane, planOf(servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.1')])));
  const [id = 0] = snapshotOf(tables).frontends.map(({ id: frontend }) =>
    Number(tables.frontend.IPv4.get(encodeFrontendKey(frontend))?.[0]),
  );
  expect(traffic.bytes.subarray(32 * id, 32 * id + 32)).toEqual(new Uint8Array(32));
  expect(traffic.bytes[32 * 15]).toBe(1);
});
