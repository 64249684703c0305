// SPDX-License-Identifier: Apache-2.0
// An audit and a snapshot of many Services let the event loop run in between, stop when the dataplane is closed, and lose
// nothing that was found before an error.
import { describe, expect, type MockInstance, test, vi } from 'vitest';
import { encodeFrontendKey } from '../../../../src/engines/bpf/layout/layout.ts';
import type { ArrayTable } from '../../../../src/engines/bpf/state/tables.ts';
import type { Dataplane } from '../../../../src/engines/dataplane.ts';
import { memoryDataplane, memoryTables } from '../../../support/dataplane/memory-dataplane.ts';
import type { MemoryTables } from '../../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from './plans.ts';

const SERVICES = 100;
const planWith = (pod: number) =>
  planOf(
    ...Array.from({ length: SERVICES }, (_, n) =>
      servicePort(`s${n}`, [clusterIp(`10.96.0.${n}`)], [backend(`10.1.${pod}.${n}`)]),
    ),
  );
const PLAN = planWith(0);

/** Gets how many Services were read before. */
type OnRead = (before: number, dataplane: Dataplane) => void;

/** Of each Service an audit reads the name, a snapshot the set. */
async function programmed(onRead: OnRead) {
  const tables = memoryTables();
  const dataplane = memoryDataplane(tables);
  await dataplane.sync(PLAN, 'all', []);
  let reads = 0;
  const read = (): void => {
    onRead(reads++, dataplane);
    work();
  };
  const { get } = tables.serviceName;
  Object.assign(tables.serviceName, {
    get: (key: Uint8Array) => {
      read();
      return get(key);
    },
  });
  const { view } = tables.slotBlock;
  const sets: Pick<ArrayTable, 'view'> = {
    view: (index) => {
      read();
      return view(index);
    },
  };
  return {
    dataplane,
    reads: () => reads,
    countReads: () => Object.assign(tables.slotBlock, sets),
  };
}

/** One millisecond of work, as many backends are. */
function work(): void {
  const endMs = performance.now() + 1;
  while (performance.now() < endMs);
}

/** In how many turns of the event loop it reads. */
async function turnsOf(reading: (onRead: OnRead) => Promise<void>): Promise<number> {
  let turns = 0;
  const turnsAt = new Set<number>();
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  await reading(() => turnsAt.add(turns));
  clearImmediate(next);
  return turnsAt.size;
}

describe('an audit', () => {
  test('of 100 ms of reading is at least five turns of the event loop', async () => {
    const turns = await turnsOf(async (onRead) => {
      const { dataplane } = await programmed(onRead);
      expect((await dataplane.audit(PLAN, [])).drift).toEqual([]);
    });
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  test('stops reading when the dataplane is closed', async () => {
    const { dataplane, reads } = await programmed((before, it) => {
      if (before === 0) setImmediate(() => it.close());
    });
    const { report } = await dataplane.audit(PLAN, []);
    expect(report.applied).toBe(0);
    expect(reads()).toBeLessThan(SERVICES);
  });
});

describe('what an audit finds', () => {
  const FRONTEND = encodeFrontendKey({
    ...{ family: 'IPv4', address: '10.96.0.0', port: 80, protocol: 'TCP' },
  });

  test.each<[string, (tables: MemoryTables) => MockInstance]>([
    ['is looking for more', ({ sourceRange }) => vi.spyOn(sourceRange, 'readAll')],
    ['is writing', ({ frontend }) => vi.spyOn(frontend.IPv4, 'put')],
  ])('before an error ends it while it %s is told by the next one, once', async (_, spyOn) => {
    const tables = memoryTables();
    const dataplane = memoryDataplane(tables);
    await dataplane.sync(PLAN, 'all', []);
    tables.frontend.IPv4.delete([FRONTEND]);
    const spy = spyOn(tables).mockImplementation(() => {
      throw new Error('EIO');
    });
    await expect(dataplane.audit(PLAN, [])).rejects.toThrow('EIO');
    spy.mockRestore();
    const text = 'frontend 10.96.0.0:80/TCP of default/s0:http/TCP/IPv4 is missing';
    expect((await dataplane.audit(PLAN, [])).drift).toMatchObject([{ text }]);
    expect(tables.frontend.IPv4.get(FRONTEND)).toBeDefined();
    expect((await dataplane.audit(PLAN, [])).drift).toEqual([]);
  });
});

describe('a snapshot', () => {
  test('of 100 ms of reading is at least five turns of the event loop', async () => {
    const turns = await turnsOf(async (onRead) => {
      const { dataplane, countReads } = await programmed(onRead);
      countReads();
      const { frontends, backends } = await dataplane.snapshot();
      expect([frontends.length, backends.length]).toEqual([SERVICES, SERVICES]);
    });
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  test('does not see a sync that is asked for meanwhile', async () => {
    let syncing: Promise<unknown> | undefined;
    const { dataplane, countReads } = await programmed((before, it) => {
      if (before === 0) syncing = it.sync(planWith(1), 'all', []);
    });
    countReads();
    const backends = async () => {
      const { frontends } = await dataplane.snapshot();
      return new Set(frontends.flatMap(({ internal }) => internal.map((text) => text.slice(0, 7))));
    };
    expect(await backends()).toEqual(new Set(['10.1.0.']));
    await syncing;
    expect(await backends()).toEqual(new Set(['10.1.1.']));
  });

  test('is refused when the dataplane is closed before its end', async () => {
    const { dataplane, reads, countReads } = await programmed((before, it) => {
      if (before === 0) setImmediate(() => it.close());
    });
    countReads();
    await expect(dataplane.snapshot()).rejects.toThrow('the dataplane is closed');
    expect(reads()).toBeLessThan(SERVICES);
  });
});
