// SPDX-License-Identifier: Apache-2.0
// What holds for any history of plans with occasional failed writes: the tables converge to the plan, ids stay
// while they are in use, nothing leaks, and no reader ever sees a set that is neither the old one nor the new one.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { frontendViews } from '../../../../src/engines/bpf/inspect/view.ts';
import {
  BACKEND_STATE,
  decodeBackend,
  decodeFrontend,
  decodeU32,
  encodeFrontendKey,
  hasTable,
} from '../../../../src/engines/bpf/layout/layout.ts';
import { renderFrontends, setNames } from '../../../../src/engines/bpf/rows/service-port/render.ts';
import { readRun } from '../../../../src/engines/bpf/rows/service-port/runs.ts';
import { adopt } from '../../../../src/engines/bpf/state/adopt.ts';
import { createTableSync } from '../../../../src/engines/bpf/state/table-sync.ts';
import { element } from '../../../../src/engines/bpf/state/tables.ts';
import { frontendText } from '../../../../src/engines/entry.ts';
import { ALGORITHM_NAMES } from '../../../../src/plan/decide/balancing.ts';
import type { Plan, ServicePortPlan } from '../../../../src/plan/types.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
import { tableEntries } from '../../../support/dataplane/set-table.ts';
import { atNight, randomOf } from '../../../support/random.ts';
import { createMemoryTables, type MemoryTables } from '../../../support/tables/memory.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from './plans.ts';

const SIZES = { frontends: 64, backends: 512, slotBlocks: 16_384, services: 64 };

const backends = fc
  .uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 36 })
  .map((hosts) =>
    hosts.sort((a, b) => a - b).map((host) => backend(`10.1.1.${host}`, 8080, host % 2 === 0)),
  );

const portArbitrary = (index: number): fc.Arbitrary<ServicePortPlan | undefined> =>
  fc.option(
    fc
      .record({
        cluster: backends,
        hasNodePort: fc.boolean(),
        extraServing: backends,
        affinity: fc.constantFrom(0, 30),
        algorithm: fc.constantFrom(...ALGORITHM_NAMES),
        weights: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 40, maxLength: 40 }),
      })
      .map(({ cluster, hasNodePort, extraServing, affinity, algorithm, weights }) => {
        const weighted = cluster.map((one, at) => ({ ...one, weight: weights[at] ?? 1 }));
        return servicePort(
          `s${index}`,
          [clusterIp(`10.96.0.${index}`), ...(hasNodePort ? [localNodePort(30000 + index)] : [])],
          weighted,
          {
            local: weighted.filter((b) => b.isLocal),
            serving: [...weighted, ...extraServing],
            affinityTimeoutSeconds: affinity,
            algorithm,
          },
        );
      }),
    { nil: undefined },
  );

const planArbitrary: fc.Arbitrary<Plan> = fc
  .tuple(...[1, 2, 3].map(portArbitrary))
  .map((ports) => planOf(...ports.filter((port) => port !== undefined)));

/** Slot order is that of ids. */
const sorted = (keys: readonly string[]): string => [...keys].sort().join();

/** frontend -> internal and external backends, as the plan wants it. */
function wanted(plan: Plan): Record<string, string> {
  const rows: Record<string, string> = {};
  for (const service of plan.services.values()) {
    for (const port of service.ports) {
      for (const f of renderFrontends(port)) {
        // Views show no entry for the other ports of a ClusterIP.
        if (f.key.port === undefined) continue;
        const [internal, external] = [f.rules.host, f.rules.outside].map(({ scope }) =>
          sorted(setNames(port, scope ?? 'cluster')),
        );
        rows[f.text] = `${internal} | ${external}`;
      }
    }
  }
  return rows;
}

function held(tables: MemoryTables): Record<string, string> {
  const rows: Record<string, string> = {};
  for (const view of frontendViews(adopt(tables).ledger)) {
    rows[frontendText(view.id)] = `${sorted(view.internal)} | ${sorted(view.external)}`;
  }
  return rows;
}

/** What a program would find right now: every slot a usable backend of the frontend's own service. */
function assertConsistent(tables: MemoryTables): void {
  for (const { key, value } of tables.frontend.IPv4.readAll()) {
    const frontend = decodeFrontend(element(tables.frontendRecord, decodeU32(value)));
    expect(encodeFrontendKey(frontend.key)).toEqual(key);
    for (const ref of Object.values(frontend.rules)) {
      let previous = 0;
      if (ref.members === 0) continue;
      const [serviceId, ...ids] = readRun(tables.slotBlock, ref.block, ref.members);
      const entries = tableEntries(tables, ref);
      expect(hasTable(ref.kind) ? new Set(entries) : new Set(ids)).toEqual(new Set(ids));
      for (const [slot, id] of ids.entries()) {
        // A binary search finds members: ids must ascend.
        if (id <= previous) throw new Error(`ids do not ascend: ${previous}, ${id}`);
        previous = id;
        const found = decodeBackend(element(tables.backend.IPv4, id), 'IPv4');
        if (found.serviceId !== serviceId || found.state !== BACKEND_STATE.ACTIVE) {
          throw new Error(`slot ${slot} of block ${ref.block} holds ${JSON.stringify(found)}`);
        }
      }
    }
  }
}

test('after any history with failed writes the tables equal the last plan, and nothing leaks', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(planArbitrary, { minLength: 1, maxLength: 12 }),
      fc.integer(),
      async (plans, seed) => {
        const tables = createMemoryTables(SIZES);
        const dataplane = createTableSync(tables, () => Promise.resolve());
        const random = randomOf(seed);
        for (const plan of plans) {
          tables.fault = () => {
            // Every write, seen by a reader in between: the law must hold before it lands.
            assertConsistent(tables);
            return random() < 0.1 ? 'ENOMEM' : undefined;
          };
          applyAll(dataplane, plan);
          assertConsistent(tables);
          await dataplane.releaseRetired();
          assertConsistent(tables);
        }
        tables.fault = () => undefined;
        const last = plans.at(-1) as Plan;
        expect(applyAll(dataplane, last).failed).toEqual([]);
        expect(held(tables)).toEqual(wanted(last));
        applyAll(dataplane, planOf());
        await dataplane.releaseRetired();
        const { ledger } = dataplane;
        expect([
          ledger.backendIds.used(),
          ledger.frontendIds.used(),
          ledger.serviceIds.used(),
          ledger.blocks.used(),
        ]).toEqual([0, 0, 0, 0]);
      },
    ),
    { numRuns: atNight(30, 1_000) },
  );
});

test('a sync of the changed Services touches only those, and equals applying all', async () => {
  await fc.assert(
    fc.asyncProperty(planArbitrary, planArbitrary, async (a, b) => {
      const one = createMemoryTables(SIZES);
      const stepwise = createTableSync(one, () => Promise.resolve());
      applyAll(stepwise, a);
      for (const key of new Set([...a.services.keys(), ...b.services.keys()]))
        stepwise.apply(b, [key]);
      expect(held(one)).toEqual(wanted(b));
    }),
    { numRuns: atNight(100, 2_000) },
  );
});

test('ids of backends never move while they are in use', async () => {
  const idsOf = (dataplane: ReturnType<typeof createTableSync>): Map<string, number> => {
    const ids = new Map<string, number>();
    for (const ports of dataplane.ledger.services.values()) {
      for (const port of ports) {
        for (const id of port.backends) {
          ids.set(`${port.key} ${dataplane.ledger.caches.backend[port.family].text(id)}`, id);
        }
      }
    }
    return ids;
  };
  await fc.assert(
    fc.asyncProperty(fc.array(planArbitrary, { minLength: 2, maxLength: 8 }), async (plans) => {
      const dataplane = createTableSync(createMemoryTables(SIZES), () => Promise.resolve());
      let before = new Map<string, number>();
      for (const plan of plans) {
        applyAll(dataplane, plan);
        const after = idsOf(dataplane);
        for (const [key, id] of after) if (before.has(key)) expect(before.get(key)).toBe(id);
        expect(new Set(after.values()).size).toBe(after.size);
        before = after;
        await dataplane.releaseRetired();
      }
    }),
    { numRuns: atNight(100, 2_000) },
  );
});

test('a restart at any point adopts what is there and then reaches the plan', async () => {
  await fc.assert(
    fc.asyncProperty(planArbitrary, planArbitrary, async (a, b) => {
      const tables = createMemoryTables(SIZES);
      applyAll(
        createTableSync(tables, () => Promise.resolve()),
        a,
      );
      const again = createTableSync(tables, () => Promise.resolve());
      expect(applyAll(again, a).applied).toBe(0);
      applyAll(again, b);
      assertConsistent(tables);
      expect(held(tables)).toEqual(wanted(b));
    }),
    { numRuns: atNight(100, 2_000) },
  );
});
