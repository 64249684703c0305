// SPDX-License-Identifier: Apache-2.0
// Sets of Maglev: which rules have them, when a table is made again, and what becomes of it when the agent starts again or
// somebody writes into it.
import { describe, expect, test } from 'vitest';
import { decodeFrontend, decodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import { findDrift } from '../../../../src/engines/bpf/state/audit.ts';
import { createTableSync, type TableSync } from '../../../../src/engines/bpf/state/table-sync.ts';
import { element } from '../../../../src/engines/bpf/state/tables.ts';
import { maglevInput } from '../../../../src/plan/maglev/input.ts';
import { maglevTable } from '../../../../src/plan/maglev/maglev-table.ts';
import type { Backend, Frontend, Plan } from '../../../../src/plan/types.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
import { tableEntries } from '../../../support/dataplane/set-table.ts';
import { createMemoryTables, type MemoryTables } from '../../../support/tables/memory.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from './plans.ts';

const SIZES = { frontends: 64, backends: 64, slotBlocks: 1024, services: 16 };
const BLOCKS = 1 + 64; // of members, and of 1,009 entries
const ALL = [5, 6, 7].map((host) => backend(`10.1.1.${host}`));

const port = (backends: readonly Backend[], how: Partial<ReturnType<typeof servicePort>> = {}) => ({
  ...servicePort('web', [clusterIp('10.96.0.10')], backends, { algorithm: 'maglev' }),
  ...how,
});

function start(tables: MemoryTables = createMemoryTables(SIZES)) {
  return { tables, dataplane: createTableSync(tables, () => Promise.resolve()) };
}

function rulesAt(tables: MemoryTables, number = 80) {
  const held = tables.frontend.IPv4.readAll().map(({ value }) =>
    decodeFrontend(element(tables.frontendRecord, decodeU32(value))),
  );
  const found = held.find(({ key }) => key.port === number);
  if (found === undefined) throw new Error('no frontend');
  return found.rules;
}

/** Hosts of 10.1.1.0/24, by entry. */
const hostsOf = ({ tables, dataplane }: ReturnType<typeof start>): readonly string[] =>
  tableEntries(tables, rulesAt(tables).pod).map((id) =>
    dataplane.ledger.caches.backend.IPv4.text(id),
  );

const modelOf = (backends: readonly Backend[], how = {}): readonly string[] =>
  Array.from(
    maglevTable(maglevInput(port(backends, how), backends)),
    (index) => `${backends[index]?.address}:${backends[index]?.port}`,
  );

/** How many tables the next apply of all Services would make, by pauses. */
const made = (dataplane: TableSync, plan: Plan): number =>
  [...dataplane.makeTables(plan, dataplane.allServices(plan))].length;

describe('a set of Maglev', () => {
  test('has the table of the model behind its members', () => {
    const node = start();
    applyAll(node.dataplane, planOf(port(ALL)));
    expect(rulesAt(node.tables).pod).toMatchObject({ kind: 'maglev', members: 3 });
    expect(hostsOf(node)).toEqual(modelOf(ALL));
    expect(node.dataplane.ledger.blocks.used()).toBe(BLOCKS);
  });

  test('is the same whatever ids the node has given, and whoever came first', () => {
    const [one, other] = [start(), start()];
    applyAll(one.dataplane, planOf(port(ALL)));
    for (const some of [[ALL[2]], [ALL[0], ALL[2]], ALL])
      applyAll(other.dataplane, planOf(port(some as readonly Backend[])));
    expect(hostsOf(other)).toEqual(hostsOf(one));
    expect(tableEntries(other.tables, rulesAt(other.tables).pod)).not.toEqual(
      tableEntries(one.tables, rulesAt(one.tables).pod),
    );
  });

  test('has the size that the Service asks for, and its weights', () => {
    const node = start();
    const weighted = ALL.map((one, index) => ({ ...one, weight: 1 + index }));
    applyAll(node.dataplane, planOf(port(weighted, { tableEntries: 251 })));
    expect(hostsOf(node)).toEqual(modelOf(weighted, { tableEntries: 251 }));
    expect(hostsOf(node).filter((host) => host === '10.1.1.7:8080').length).toBeGreaterThan(120);
    applyAll(node.dataplane, planOf(port(ALL, { tableEntries: 251 })));
    expect(hostsOf(node)).toEqual(modelOf(ALL, { tableEntries: 251 }));
  });

  test('is one entry for one backend', async () => {
    const node = start();
    applyAll(node.dataplane, planOf(port(ALL)));
    applyAll(node.dataplane, planOf(port(ALL.slice(0, 1))));
    await node.dataplane.releaseRetired();
    expect(hostsOf(node)).toEqual(['10.1.1.5:8080']);
    expect(node.dataplane.ledger.blocks.used()).toBe(2);
  });

  test('is for clients from outside alone, where that is the setting', () => {
    const { tables, dataplane } = start();
    const frontends = [clusterIp('10.96.0.10'), localNodePort(30_080)];
    const how = {
      algorithm: 'random',
      externalAlgorithm: 'maglev',
      local: ALL,
      frontends,
    } as const;
    applyAll(dataplane, planOf(port(ALL, how)));
    expect(rulesAt(tables)).toMatchObject({ outside: { kind: 'random' } });
    expect(rulesAt(tables, 30_080)).toMatchObject({
      pod: { kind: 'random' },
      host: { kind: 'random' },
      outside: { kind: 'maglev' },
    });
  });
});

describe('a table is made', () => {
  test('before the sync of a changed Service, and of no other', () => {
    const { dataplane } = start();
    const other = {
      ...port(ALL),
      name: 'other',
      key: 'default/other:http/TCP/IPv4',
      frontends: [clusterIp('10.96.0.11')],
    };
    expect(made(dataplane, planOf(port(ALL), other))).toBe(2);
    applyAll(dataplane, planOf(port(ALL), other));
    expect(made(dataplane, planOf(port(ALL), other))).toBe(0);
    expect(made(dataplane, planOf(port(ALL.slice(1)), other))).toBe(1);
    expect(made(dataplane, planOf(port(ALL, { tableEntries: 251 }), other))).toBe(1);
    const weighted = ALL.map((one, index) => ({ ...one, weight: 1 + index }));
    expect(made(dataplane, planOf(port(weighted), other))).toBe(1);
  });

  test('once by the next agent, which finds that it is the one in the kernel', () => {
    const { tables, dataplane } = start();
    const plan = planOf(port(ALL));
    applyAll(dataplane, plan);
    const again = start(tables).dataplane;
    expect(again.ledger.blocks.used()).toBe(BLOCKS);
    expect(made(again, plan)).toBe(1);
    expect(applyAll(again, plan).applied).toBe(0);
    expect(made(again, plan)).toBe(0);
  });

  test('anew if somebody has changed it, before or after a restart', () => {
    const { tables, dataplane } = start();
    const plan = planOf(port(ALL));
    applyAll(dataplane, plan);
    const { block } = rulesAt(tables).pod;
    const at = tables.slotBlock.offset(block + 5);
    const view = tables.slotBlock.view(block + 5);
    view.setUint32(at, 1 + (view.getUint32(at, true) % 3), true);
    expect([...findDrift(dataplane.ledger)].flat().map(({ text }) => text)).toEqual([
      `set at block ${block} of default/web:http/TCP/IPv4 differs`,
    ]);
    const again = start(tables);
    applyAll(again.dataplane, plan);
    expect(rulesAt(tables).pod.block).not.toBe(block);
    expect(hostsOf(again)).toEqual(modelOf(ALL));
    expect(made(dataplane, plan)).toBe(1);
  });

  test('anew if its length is wrong', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, planOf(port(ALL)));
    const { block } = rulesAt(tables).pod;
    tables.slotBlock.view(block + 1).setUint32(tables.slotBlock.offset(block + 1), 251, true);
    expect([...findDrift(dataplane.ledger)].flat()).toHaveLength(1);
  });
});

describe('without room for the table', () => {
  const small = () => start(createMemoryTables({ ...SIZES, slotBlocks: BLOCKS + 16 }));
  const held = { ...port(ALL), name: 'held' };
  const other = (backends: readonly Backend[], how = {}) => ({
    ...port(backends, how),
    ...{ service: 'default/other', name: 'other', key: 'default/other:http/TCP/IPv4' },
    frontends: [clusterIp('10.96.0.11', 81)],
  });

  test('a new Service is served by random choice, and reported', () => {
    const node = small();
    applyAll(node.dataplane, planOf(held));
    const report = applyAll(node.dataplane, planOf(held, other(ALL)));
    expect(report.failed).toMatchObject([
      {
        ...{ code: 'MAP_FULL', map: 'fl_slot_block', service: 'default/other', isServed: true },
        reason: expect.stringMatching(/^no room for its Maglev table, .* by random choice: /),
      },
    ]);
    expect(report.failed[0]?.reason).not.toContain('old state');
    expect(rulesAt(node.tables, 81).pod).toMatchObject({ kind: 'random', members: 3 });
    expect(rulesAt(node.tables).pod).toMatchObject({ kind: 'maglev' });
  });

  test('its weights count, if there is room for those', () => {
    const node = small();
    applyAll(node.dataplane, planOf(held));
    const weighted = ALL.map((one, index) => ({ ...one, weight: 1 + index }));
    applyAll(node.dataplane, planOf(held, other(weighted)));
    expect(rulesAt(node.tables, 81).pod).toMatchObject({ kind: 'weighted-random', members: 3 });
    const uneven = ALL.map((one, index) => ({ ...one, weight: 401 + index }));
    applyAll(node.dataplane, planOf(held, other(uneven)));
    expect(rulesAt(node.tables, 81).pod).toMatchObject({ kind: 'random', members: 3 });
  });

  test('it gets the table when there is room again', async () => {
    const node = small();
    applyAll(node.dataplane, planOf(held));
    applyAll(node.dataplane, planOf(held, other(ALL)));
    applyAll(node.dataplane, planOf(other(ALL)));
    await node.dataplane.releaseRetired();
    expect(applyAll(node.dataplane, planOf(other(ALL))).failed).toEqual([]);
    expect(rulesAt(node.tables, 81).pod).toMatchObject({ kind: 'maglev' });
  });

  test('endpoints change nevertheless: the table that it has makes room for the next one', async () => {
    const node = small();
    applyAll(node.dataplane, planOf(port(ALL)));
    const changed = planOf(port(ALL.slice(1)));
    expect(applyAll(node.dataplane, changed).failed).toMatchObject([{ isServed: true }]);
    expect(rulesAt(node.tables).pod).toMatchObject({ kind: 'random', members: 2 });
    await node.dataplane.releaseRetired();
    expect(applyAll(node.dataplane, changed).failed).toEqual([]);
    expect(hostsOf(node)).toEqual(modelOf(ALL.slice(1)));
  });

  test('the table that is there serves on, if it has the same endpoints', () => {
    const node = small();
    applyAll(node.dataplane, planOf(port(ALL)));
    const before = hostsOf(node);
    const report = applyAll(node.dataplane, planOf(port(ALL, { tableEntries: 4093 })));
    expect(report.failed).toMatchObject([
      { reason: expect.stringContaining('by the table that it has'), isServed: true },
    ]);
    expect(hostsOf(node)).toEqual(before);
  });

  test('the set of all endpoints has room before the table of those of this node', () => {
    const all = Array.from({ length: 40 }, (_, number) => backend(`10.1.1.${number + 1}`));
    const local = { scope: 'local', whenEmpty: 'reject', masquerade: false } as const;
    const cluster = { ...local, scope: 'cluster' } as const;
    // internalTrafficPolicy Local, and a NodePort with externalTrafficPolicy Cluster.
    const frontends: readonly Frontend[] = [
      { ...clusterIp('10.96.0.10'), rules: { pod: local, host: local, outside: local } },
      {
        ...{ kind: 'NodePort', address: undefined, port: 30_080 },
        rules: { pod: cluster, host: cluster, outside: cluster },
      },
    ];
    const { dataplane } = start(createMemoryTables({ ...SIZES, slotBlocks: 66 }));
    const wanted = { algorithm: 'maglev', local: all.slice(0, 3) } as const;
    const report = applyAll(dataplane, planOf(servicePort('web', frontends, all, wanted)));
    expect(report.failed.map(({ isServed }) => isServed)).toEqual([true]);
  });

  test('nor for the set, the Service is as it was', () => {
    const node = start(createMemoryTables({ ...SIZES, slotBlocks: 4 }));
    const report = applyAll(node.dataplane, planOf(port(ALL), other(ALL)));
    expect(report.failed).toMatchObject([{ isServed: true }, { isServed: true }]);
    const many = Array.from({ length: 60 }, (_, host) => backend(`10.1.2.${host + 1}`));
    const full = applyAll(node.dataplane, planOf(port(many)));
    expect(full.failed).toMatchObject([{ code: 'MAP_FULL' }]);
    expect(full.failed[0]).not.toHaveProperty('isServed');
    expect(rulesAt(node.tables).pod).toMatchObject({ kind: 'random', members: 3 });
  });
});
