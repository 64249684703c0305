// SPDX-License-Identifier: Apache-2.0
// An audit of many Services lets the event loop run in between, and stops when the dataplane is closed.
import { expect, test } from 'vitest';
import { memoryDataplane, memoryTables } from '../../../support/dataplane/memory-dataplane.ts';
import { backend, clusterIp, planOf, servicePort } from './plans.ts';

const SERVICES = 100;
const PLAN = planOf(
  ...Array.from({ length: SERVICES }, (_, n) =>
    servicePort(`s${n}`, [clusterIp(`10.96.0.${n}`)], [backend(`10.1.0.${n}`)]),
  ),
);

/** Names are read by audits alone, one for each Service; `onRead` gets how many were read before. */
async function programmed(onRead: (before: number) => void) {
  const tables = memoryTables();
  const dataplane = memoryDataplane(tables);
  await dataplane.sync(PLAN, 'all', []);
  const { get } = tables.serviceName;
  let reads = 0;
  Object.assign(tables.serviceName, {
    get: (key: Uint8Array) => {
      onRead(reads++);
      return get(key);
    },
  });
  return { dataplane, reads: () => reads };
}

/** One millisecond of work, as many backends are. */
function work(): void {
  const endMs = performance.now() + 1;
  while (performance.now() < endMs);
}

test('100 ms of reading are at least five turns of the event loop', async () => {
  let turns = 0;
  const turnsAt = new Set<number>();
  const { dataplane } = await programmed(() => {
    turnsAt.add(turns);
    work();
  });
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  expect((await dataplane.audit(PLAN, [])).drift).toEqual([]);
  clearImmediate(next);
  expect(turnsAt.size).toBeGreaterThanOrEqual(5);
});

test('reading stops when the dataplane is closed', async () => {
  const { dataplane, reads } = await programmed((before) => {
    if (before === 0) setImmediate(() => dataplane.close());
    work();
  });
  const { report } = await dataplane.audit(PLAN, []);
  expect(report.applied).toBe(0);
  expect(reads()).toBeLessThan(SERVICES);
});
