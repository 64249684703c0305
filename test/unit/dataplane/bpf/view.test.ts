// SPDX-License-Identifier: Apache-2.0
// What is counted of frontends: the short answer for scrapes says what the long one for people does.
import { expect, test } from 'vitest';
import { frontendViews, portConnections } from '../../../../src/dataplane/bpf/inspect/view.ts';
import { createMemoryTables } from '../../../../src/dataplane/bpf/maps/memory.ts';
import { createTableSync } from '../../../../src/dataplane/bpf/sync/table-sync.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
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
  expect(short.map(({ connections }) => connections)).toEqual([10, 20]);
  expect(short).toEqual(long.map(({ port, connections }) => ({ port, connections })));
  expect(long[0]?.internal).toEqual(['10.1.1.1:8080', '10.1.1.2:8080']);
});
