// SPDX-License-Identifier: Apache-2.0
// The former table of connections without records: which sets keep it, what becomes of it when backends go, when the agent
// starts again, when there is no room, and when nobody needs it any more.
import { describe, expect, test } from 'vitest';
import {
  BACKEND_STATE,
  backendStateOffset,
  baseBlocksFor,
  blocksFor,
  decodeFrontend,
  decodeU32,
} from '../../../../../src/engines/bpf/layout/layout.ts';
import { isUnanswered } from '../../../../../src/engines/bpf/rows/service-port/base.ts';
import { readEntries, readRun } from '../../../../../src/engines/bpf/rows/service-port/runs.ts';
import {
  DEFAULT_TIMES,
  flowTimeouts,
  longestSilence,
} from '../../../../../src/engines/bpf/rows/timeouts.ts';
import { findDrift } from '../../../../../src/engines/bpf/state/audit.ts';
import { applyWithRoom } from '../../../../../src/engines/bpf/state/room.ts';
import { createTableSync } from '../../../../../src/engines/bpf/state/table-sync.ts';
import { element } from '../../../../../src/engines/bpf/state/tables.ts';
import type { Backend, Frontend, Plan, TrafficRule } from '../../../../../src/plan/types.ts';
import { applyAll } from '../../../../support/dataplane/apply-all.ts';
import { tableEntries } from '../../../../support/dataplane/set-table.ts';
import { createMemoryTables, type MemoryTables } from '../../../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const SIZES = { frontends: 64, backends: 256, slotBlocks: 1024, services: 16 };
const ENTRIES = 251;
const TABLE_BLOCKS = blocksFor(ENTRIES);
const BASE_BLOCKS = baseBlocksFor(ENTRIES);
const ALL = Array.from({ length: 20 }, (_, index) => backend(`10.1.1.${index + 1}`));
const TEN = ALL.slice(0, 10);

const own: TrafficRule = { scope: 'cluster', whenEmpty: 'reject', masquerade: false };
const direct: TrafficRule = { ...own, masquerade: true, directReturn: true };
const frontend = (outside: TrafficRule, address = '192.0.2.80', number = 80): Frontend => ({
  ...{ kind: 'LoadBalancer', address, port: number },
  rules: { pod: own, host: own, outside },
});
const port = (backends: readonly Backend[], how: Partial<ReturnType<typeof servicePort>> = {}) => ({
  ...servicePort('web', [frontend(direct)], backends, { algorithm: 'maglev' }),
  tableEntries: ENTRIES,
  ...how,
});

function start(tables: MemoryTables = createMemoryTables(SIZES)) {
  return { tables, dataplane: createTableSync(tables, () => Promise.resolve()) };
}
type Node = ReturnType<typeof start>;

function rulesAt({ tables }: Node, number = 80) {
  const held = tables.frontend.IPv4.readAll().map(({ value }) =>
    decodeFrontend(element(tables.frontendRecord, decodeU32(value))),
  );
  const found = held.find(({ key }) => key.port === number);
  if (found === undefined) throw new Error('no frontend');
  return found.rules;
}

/** Ids by entry; undefined: there is none. */
function baseOf(node: Node, number = 80): readonly number[] | undefined {
  const rule = rulesAt(node, number).outside;
  if (rule.hasBase !== true) return undefined;
  const entries = tableEntries(node.tables, rule).length;
  const first = rule.block + blocksFor(rule.members) + (entries === 0 ? 0 : blocksFor(entries));
  const [length = 0] = readRun(node.tables.slotBlock, first, 0);
  return [...readEntries(node.tables.slotBlock, first, length)];
}
const tableOf = (node: Node, number = 80): readonly number[] =>
  tableEntries(node.tables, rulesAt(node, number).outside);
const textsOf = (node: Node, ids: readonly number[] = []): readonly string[] =>
  ids.map((id) => (id === 0 ? '' : node.dataplane.ledger.caches.backend.IPv4.text(id)));
const apply = (node: Node, ...ports: readonly ReturnType<typeof servicePort>[]) =>
  applyAll(node.dataplane, planOf(...ports));

function changed(from: readonly Backend[] = TEN, to: readonly Backend[] = ALL, how = {}) {
  const node = start();
  apply(node, port(from, how));
  const before = tableOf(node);
  apply(node, port(to, { serving: ALL, ...how }));
  return { ...node, before };
}

describe('a set keeps the former table', () => {
  test('when the backends change, and the first one when they change again', () => {
    const node = changed();
    expect(baseOf(node)).toEqual(node.before);
    expect(tableOf(node)).not.toEqual(node.before);
    apply(node, port(ALL.slice(3), { serving: ALL }));
    expect(baseOf(node)).toEqual(node.before);
    expect(rulesAt(node).host.hasBase, 'in every rule of the set').toBe(true);
  });

  test('and where a backend was gone, that of the table which decided since then', () => {
    const node = start();
    apply(node, port(TEN));
    apply(node, port(TEN.slice(1)));
    const gone = (baseOf(node) ?? []).map((id) => id === 0);
    expect(gone.filter(Boolean).length).toBeGreaterThan(10);
    const decided = tableOf(node);
    apply(node, port(ALL.slice(1)));
    const base = baseOf(node) ?? [];
    expect(base.filter((_, entry) => gone[entry])).toEqual(
      decided.filter((_, entry) => gone[entry]),
    );
  });

  test('until they are as before', () => {
    const node = changed();
    apply(node, port(TEN, { serving: ALL }));
    expect(tableOf(node)).toEqual(node.before);
    expect(baseOf(node)).toBeUndefined();
  });

  test('of another size, with other weights, or before another algorithm', () => {
    for (const how of [
      { tableEntries: 1009 },
      { cluster: TEN.map((one, index) => ({ ...one, weight: 1 + index })) },
      { algorithm: 'random' as const },
    ]) {
      const node = start();
      apply(node, port(TEN));
      const before = tableOf(node);
      apply(node, port(TEN, how));
      expect(baseOf(node)).toEqual(before);
    }
  });

  test('and a sync that changes nothing changes nothing', () => {
    const node = changed();
    const { block } = rulesAt(node).outside;
    expect(apply(node, port(ALL, { serving: ALL })).applied).toBe(0);
    expect(rulesAt(node).outside.block).toBe(block);
  });
});

describe('no table is kept of connections that have records:', () => {
  const changedBy = (rule: TrafficRule, how = {}) => {
    const node = start();
    const frontends = [frontend(rule)];
    apply(node, port(TEN, { frontends, ...how }));
    apply(node, port(ALL, { frontends, ...how }));
    return baseOf(node);
  };
  test.each([
    ['without direct return', { ...own, masquerade: true }, {}],
    ['not masqueraded', { ...own, directReturn: true }, {}],
    ['with session affinity', direct, { affinityTimeoutSeconds: 60 }],
    ['by random choice', direct, { algorithm: 'random' }],
  ] as const)('%s', (_, rule, how) => {
    expect(changedBy(rule, how)).toBeUndefined();
  });

  test('of a NodePort', () => {
    const node = start();
    const frontends = [{ ...frontend(direct), kind: 'NodePort', address: undefined } as const];
    apply(node, port(TEN, { frontends }));
    apply(node, port(ALL, { frontends }));
    expect(baseOf(node)).toBeUndefined();
  });

  test('of a frontend that had them until now', () => {
    const node = start();
    const { directReturn: _, ...masqueraded } = direct;
    apply(node, port(TEN, { frontends: [frontend(masqueraded)] }));
    apply(node, port(ALL));
    expect(baseOf(node)).toBeUndefined();
  });

  test('of another scope, whose set other clients have', () => {
    const node = start();
    const local = { ...own, scope: 'local' } as const;
    const ofOthers = {
      ...clusterIp('10.96.0.10', 81),
      rules: { pod: local, host: local, outside: local },
    };
    const how = { frontends: [ofOthers, frontend(direct)], local: ALL.slice(0, 2) };
    apply(node, port(TEN, how));
    const before = tableOf(node);
    apply(node, port(TEN, { ...how, local: ALL.slice(0, 3) }));
    expect([baseOf(node), baseOf(node, 81)]).toEqual([undefined, undefined]);
    apply(node, port(ALL, { ...how, local: ALL.slice(0, 4) }));
    expect([baseOf(node), baseOf(node, 81)]).toEqual([before, undefined]);
  });

  test.each([
    [true, true, true],
    [true, false, false],
    [false, true, false],
    [true, undefined, false],
  ])('masquerade %s, direct return %s: %s', (masquerade, returnsDirectly, expected) => {
    expect(isUnanswered({ masquerade, returnsDirectly: returnsDirectly as boolean })).toBe(
      expected,
    );
  });
});

describe('a backend of the former table', () => {
  const stateOf = ({ tables }: Node, id: number): number =>
    tables.backend.IPv4.view(id).getUint8(
      tables.backend.IPv4.offset(id) + backendStateOffset('IPv4'),
    );

  test('that takes no new connections stays in it, and one that is gone does not', async () => {
    const node = changed(TEN, TEN.slice(2));
    const [first = 0, second = 0] = [
      node.before.find((id) => textsOf(node, [id])[0] === '10.1.1.1:8080'),
      node.before.find((id) => textsOf(node, [id])[0] === '10.1.1.2:8080'),
    ];
    expect([first, second].map((id) => stateOf(node, id))).toEqual([
      BACKEND_STATE.TERMINATING,
      BACKEND_STATE.TERMINATING,
    ]);
    expect(baseOf(node)).toEqual(node.before);
    apply(node, port(TEN.slice(2), { serving: TEN.slice(1) }));
    expect(baseOf(node)).toEqual(node.before.map((id) => (id === first ? 0 : id)));
    expect([...findDrift(node.dataplane.ledger)].flat()).toEqual([]);
    await node.dataplane.releaseRetired();
    expect(stateOf(node, first)).toBe(BACKEND_STATE.FREE);
    apply(node, port(TEN.slice(2)));
    expect(new Set(baseOf(node))).not.toContain(second);
  });

  test('that comes back is ACTIVE, and the same', () => {
    const node = changed(TEN, TEN.slice(2));
    apply(node, port(TEN, { serving: ALL }));
    expect(node.before.every((id) => stateOf(node, id) === BACKEND_STATE.ACTIVE)).toBe(true);
    expect(baseOf(node)).toBeUndefined();
  });
});

describe('the next agent', () => {
  const plan = planOf(port(ALL, { serving: ALL }));

  test('finds it, with the time, and keeps it when the table changes again', () => {
    const node = changed();
    const [held] = node.dataplane.ledger.bases.keys();
    const next = start(node.tables);
    expect(next.dataplane.ledger.blocks.used()).toBe(
      node.dataplane.ledger.blocks.used() - blocksFor(10) - TABLE_BLOCKS,
    );
    expect([...next.dataplane.ledger.bases.keys()].map(({ base }) => base)).toEqual([held?.base]);
    expect(held?.base?.since).toBeGreaterThan(0);
    expect(applyAll(next.dataplane, plan).applied).toBe(0);
    apply(next, port(ALL.slice(5), { serving: ALL }));
    expect(baseOf(next)).toEqual(node.before);
  });

  test('does without one that is not within the slots', () => {
    const node = changed();
    const { block } = rulesAt(node).outside;
    const first = block + blocksFor(20) + TABLE_BLOCKS;
    node.tables.slotBlock
      .view(first)
      .setUint32(node.tables.slotBlock.offset(first), 1_000_000, true);
    const next = start(node.tables);
    applyAll(next.dataplane, plan);
    expect(baseOf(next)).toBeUndefined();
  });

  test('and an audit replaces a set whose base somebody has changed', () => {
    const node = changed();
    const { block } = rulesAt(node).outside;
    const at = block + blocksFor(20) + TABLE_BLOCKS + 2;
    node.tables.slotBlock.view(at).setUint32(node.tables.slotBlock.offset(at), 77, true);
    expect([...findDrift(node.dataplane.ledger)].flat()).toHaveLength(1);
    applyAll(node.dataplane, plan);
    expect(rulesAt(node).outside.block).not.toBe(block);
    expect([...findDrift(node.dataplane.ledger)].flat()).toEqual([]);
  });
});

test('it ends in its time: the rules lose it in place, and its slots are free', async () => {
  const node = changed();
  const { block } = rulesAt(node).outside;
  const { ledger } = node.dataplane;
  await node.dataplane.releaseRetired();
  const used = ledger.blocks.used();
  const since = [...ledger.bases.keys()][0]?.base?.since ?? 0;
  const endAt = (now: number) =>
    node.dataplane.endBases(
      (protocol, from) => now - from >= longestSilence(flowTimeouts(DEFAULT_TIMES), protocol),
    );
  expect(endAt(since + 86_399)).toBe(0);
  expect(baseOf(node)).toEqual(node.before);
  expect(endAt(since + 86_400)).toBe(1);
  expect(baseOf(node)).toBeUndefined();
  expect(rulesAt(node).host.hasBase).toBeUndefined();
  expect(rulesAt(node).outside.block).toBe(block);
  await node.dataplane.releaseRetired();
  expect(ledger.blocks.used()).toBe(used - BASE_BLOCKS);
  expect(apply(node, port(ALL, { serving: ALL })).applied).toBe(0);
  expect([...findDrift(ledger)].flat()).toEqual([]);
  expect(start(node.tables).dataplane.ledger.blocks.used()).toBe(used - BASE_BLOCKS);
});

test('a time for each protocol', () => {
  const times = flowTimeouts({ ...DEFAULT_TIMES, tcpCloseWaitSeconds: 90_000 });
  expect(longestSilence(times, 'TCP')).toBe(90_000);
  expect(longestSilence(times, 'UDP')).toBe(120);
});

describe('in a full slot table', () => {
  const withSlots = (slotBlocks: number) => start(createMemoryTables({ ...SIZES, slotBlocks }));
  /** Of ALL, with its table. */
  const SET = blocksFor(20) + TABLE_BLOCKS;
  const other = {
    ...port(TEN),
    ...{ name: 'other', key: 'default/other:http/TCP/IPv4' },
    frontends: [frontend(direct, '192.0.2.81', 81)],
    tableEntries: 1009,
  };
  const sync = ({ dataplane }: Node, plan: Plan) =>
    applyWithRoom(dataplane, plan, [...dataplane.allServices(plan)]);

  test('bases end before a new Service is refused, or gets a lesser set', async () => {
    // Behind the former set and this one is room for the other, but not behind a base, too.
    const node = withSlots(blocksFor(10) + TABLE_BLOCKS + SET + blocksFor(10) + blocksFor(1009));
    await sync(node, planOf(port(TEN)));
    await sync(node, planOf(port(ALL, { serving: ALL })));
    await node.dataplane.releaseRetired();
    expect(baseOf(node)).toBeDefined();
    const report = await sync(node, planOf(port(ALL, { serving: ALL }), other));
    expect(report.failed).toEqual([]);
    expect(rulesAt(node, 81).outside.kind).toBe('maglev');
    expect(baseOf(node)).toBeUndefined();
  });

  test('a set that changes goes without, and none of its backends stays out of use', async () => {
    const node = withSlots(2 * SET);
    await sync(node, planOf(port(TEN)));
    const report = await sync(node, planOf(port(ALL, { serving: ALL })));
    expect(report.failed).toEqual([]);
    expect(rulesAt(node).outside).toMatchObject({ kind: 'maglev', members: 20 });
    expect(baseOf(node)).toBeUndefined();
    await node.dataplane.releaseRetired();
    for (const backends of [TEN, ALL, TEN.slice(4), ALL]) {
      await sync(node, planOf(port(backends, { serving: ALL })));
      await node.dataplane.releaseRetired();
      const { ledger } = node.dataplane;
      const record = ledger.services.get('default/web')?.[0];
      const members = new Set(record?.sets.flatMap((set) => set.members));
      expect(members.size).toBe(backends.length);
      for (const id of record?.backends ?? [])
        expect(ledger.caches.backend.IPv4.state(id)).toBe(
          members.has(id) ? BACKEND_STATE.ACTIVE : BACKEND_STATE.TERMINATING,
        );
      expect(start(node.tables).dataplane.ledger.blocks.used()).toBe(ledger.blocks.used());
    }
  });
});
