// SPDX-License-Identifier: Apache-2.0
// The sync loop over tables in memory, with timers that the test controls: when it writes, when it must not, what
// it retries and what it repairs.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Agent, createAgent, type SyncFacts } from '../../../src/agent/agent.ts';
import type { ComposedDataplane, Dataplane, FailedEntry } from '../../../src/engines/dataplane.ts';
import { createMoving } from '../../../src/engines/router/moving.ts';
import { createRouter } from '../../../src/engines/router/router.ts';
import { createLogger } from '../../../src/log.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import { createPlanner } from '../../../src/plan/planner.ts';
import type { Plan, ServicePlan, ServicePortPlan } from '../../../src/plan/types.ts';
import type { NodeAddresses } from '../../../src/sys/netlink/node-addresses.ts';
import { memoryDataplane, memoryTables } from '../../support/dataplane/memory-dataplane.ts';
import type { MemoryTables } from '../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from '../engines/bpf/plans.ts';
import { ready, SETTINGS, service, slice } from '../plan/support.ts';

const AUDIT_MS = 60_000;
let agent: Agent;
let tables: MemoryTables;
let dataplane: Dataplane;
let composed: ComposedDataplane;
let plan: Plan;
/** The arguments of each sync. */
let syncs: (number | 'all')[];
let local: { family: 'IPv4'; address: string }[];
let localChanged: () => void;
const addresses: NodeAddresses = {
  current: () => local,
  listen: (listener) => {
    localChanged = listener;
  },
};

/** A planner whose objects are service ports. */
const planner = {
  apply(changes: readonly ObjectChange[]): Plan {
    for (const change of changes) {
      const services = new Map(plan.services);
      services.delete(`default/${change.ref.name}`);
      const put = change.type === 'put' ? [change.object as ServicePortPlan] : [];
      plan = { ...plan, services: new Map([...services, ...planOf(...put).services]) };
    }
    return plan;
  },
  nodesListed: () => undefined,
  adopt: () => undefined,
  hasConflicts: () => false,
  nodeHas: () => undefined,
};

const put = (name: string, ...addresses: string[]): ObjectChange => ({
  type: 'put',
  ref: { kind: 'Service', namespace: 'default', name },
  object: servicePort(
    name,
    [clusterIp(`10.96.${Number(name.slice(1)) >> 8}.${Number(name.slice(1)) & 255}`)],
    addresses.map((a) => backend(a)),
  ),
});

const remove = (name: string): ObjectChange => ({
  type: 'remove',
  ref: { kind: 'Service', namespace: 'default', name },
});
/** Without the wildcards that reject the other ports of ClusterIPs. */
const frontends = (): number =>
  tables.frontend.IPv4.readAll().filter(({ key }) => key[6] !== 0).length;
/** Runs setImmediate callbacks and promises, but no timers of the agent. */
const turns = async (count = 3): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await vi.advanceTimersByTimeAsync(1);
};

function start(): void {
  tables = memoryTables();
  restart();
}

function restart(): void {
  dataplane = memoryDataplane(tables);
  const sync = dataplane.sync.bind(dataplane);
  dataplane.sync = (plan, changed, addresses) => {
    syncs.push(typeof changed === 'string' ? 'all' : [...changed].length);
    return sync(plan, changed, addresses);
  };
  compose();
}

function compose(): void {
  composed = createRouter([dataplane]);
  agent = createAgent({
    planner,
    dataplane: composed,
    log: createLogger('error', 'json'),
    addresses,
    auditIntervalMs: AUDIT_MS,
  });
}

beforeEach(() => {
  vi.useFakeTimers({
    toFake: [
      'setTimeout',
      'setInterval',
      'setImmediate',
      'clearTimeout',
      'clearInterval',
      'performance',
      'Date',
    ],
  });
  plan = planOf();
  syncs = [];
  local = [{ family: 'IPv4', address: '192.0.2.11' }];
  start();
});
afterEach(() => {
  agent.stop();
  vi.useRealTimers();
});

test('a change that no Service depends on is reported in sync, so that health does not wait for it forever', async () => {
  const told: SyncFacts[] = [];
  agent.stop();
  agent = createAgent({
    planner: {
      apply: () => planOf(),
      nodesListed: () => undefined,
      adopt: () => undefined,
      hasConflicts: () => false,
      nodeHas: () => undefined,
    },
    dataplane: composed,
    log: createLogger('error', 'json'),
    addresses,
    auditIntervalMs: AUDIT_MS,
  });
  agent.listen({ onSync: (facts) => told.push(facts) });
  agent.accept([put('s1', '10.1.1.1')]);
  await turns();
  expect(told).toEqual([]);
  agent.sourceSynced();
  await turns();
  told.length = 0;
  agent.accept([put('s1', '10.1.1.1')]);
  await turns();
  expect(told).toMatchObject([{ services: [], isComplete: true }]);
});

describe('before the first complete lists', () => {
  test('nothing is written, whatever arrives', async () => {
    agent.accept([put('s1', '10.1.1.1'), put('s2', '10.1.1.2')]);
    await turns();
    await vi.advanceTimersByTimeAsync(AUDIT_MS * 2);
    expect(frontends()).toBe(0);
    expect(agent.state().isReady).toBe(false);
  });

  test('the state of an earlier agent stays until they are complete', async () => {
    agent.accept([put('s1', '10.1.1.1')]);
    agent.sourceSynced();
    await turns();
    agent.stop();
    plan = planOf();
    restart();
    await turns();
    expect(frontends()).toBe(1);
    agent.sourceSynced();
    await turns();
    expect(frontends()).toBe(0);
  });
});

describe('changes', () => {
  test('of one turn of the event loop become one sync, those of the next turn another', async () => {
    agent.sourceSynced();
    await turns();
    syncs = [];
    agent.accept([put('s1', '10.1.1.1')]);
    agent.accept([put('s2', '10.1.1.2')]);
    await turns();
    agent.accept([remove('s1')]);
    await turns();
    expect(syncs).toEqual([2, 1]);
    expect(frontends()).toBe(1);
  });

  test('of one Service while the dataplane is busy become one sync', async () => {
    agent.sourceSynced();
    await turns();
    syncs = [];
    let go = (): void => undefined;
    const { sync } = dataplane;
    dataplane.sync = async (...asked) => {
      await new Promise<void>((resolve) => {
        go = resolve;
      });
      dataplane.sync = sync;
      return sync(...asked);
    };
    agent.accept([put('s1', '10.1.1.1')]);
    await turns();
    for (const address of ['10.1.1.2', '10.1.1.3', '10.1.1.4']) {
      agent.accept([put('s1', address), put('s2', address)]);
      await turns();
    }
    expect(syncs).toEqual([]);
    go();
    await turns();
    expect(syncs).toEqual([1, 2]);
    expect(frontends()).toBe(2);
  });

  test('that come while the dataplane pauses are in the sync after the pause', async () => {
    let go = (): void => undefined;
    dataplane.untilDue = () =>
      new Promise<void>((resolve) => {
        go = resolve;
      });
    compose();
    agent.sourceSynced();
    agent.accept([put('s1', '10.1.1.1')]);
    await turns();
    agent.accept([put('s2', '10.1.1.2')]);
    await turns();
    expect(syncs).toEqual([]);
    go();
    await turns();
    expect(syncs).toHaveLength(1);
    expect(frontends()).toBe(2);
    await agent.stop();
    go();
    await turns();
    expect(syncs).toHaveLength(1);
  });
});

describe('failed writes', () => {
  test('are retried with backoff until they succeed', async () => {
    agent.sourceSynced();
    await turns();
    let refusals = 0;
    tables.fault = () => {
      refusals++;
      return 'ENOMEM';
    };
    agent.accept([put('s1', '10.1.1.1')]);
    await turns();
    expect(agent.state().failed).toHaveLength(1);
    const first = refusals;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(refusals - first).toBeGreaterThan(3);
    expect(refusals - first).toBeLessThan(30);
    tables.fault = () => undefined;
    await vi.advanceTimersByTimeAsync(30_000);
    expect(agent.state().failed).toEqual([]);
    expect(frontends()).toBe(1);
  });

  test('of addresses of the node are retried, too: one that could not be deleted', async () => {
    agent.sourceSynced();
    await turns();
    const table = tables.nodeAddress.IPv4;
    const remove = table.delete;
    Object.assign(table, { delete: () => [{ index: 0, code: 'EPERM' }] });
    local = [];
    localChanged();
    await turns();
    expect(agent.state().failed).toMatchObject([{ text: 'node address 192.0.2.11' }]);
    expect(table.readAll()).toHaveLength(1);
    Object.assign(table, { delete: remove });
    await vi.advanceTimersByTimeAsync(AUDIT_MS / 2);
    expect(agent.state().failed).toEqual([]);
    expect(table.readAll()).toEqual([]);
  });

  test('of one Service do not delay another', async () => {
    agent.sourceSynced();
    const [bad] = [put('s1', '10.1.1.1')];
    tables.fault = (name, key) => (name === 'fl_frontend4' && key[3] === 1 ? 'ENOMEM' : undefined);
    agent.accept([bad, put('s2', '10.1.1.2')]);
    await turns();
    expect(frontends()).toBe(1);
    expect(new Set(agent.state().failed.map(({ service }) => service))).toEqual(
      new Set(['default/s1']),
    );
  });

  test('are dropped when the Service is removed', async () => {
    agent.sourceSynced();
    await turns();
    tables.fault = () => 'ENOMEM';
    agent.accept([put('s1', '10.1.1.1')]);
    await turns();
    agent.accept([remove('s1')]);
    await turns();
    expect(agent.state().failed).toEqual([]);
  });
});

describe('a sync that throws', () => {
  /** The next syncs reject as a whole; returns what makes them work again. */
  const failSyncs = (): (() => void) => {
    const { sync } = dataplane;
    dataplane.sync = () => Promise.reject(new Error('EIO'));
    return () => {
      dataplane.sync = sync;
    };
  };

  test('is made up for by the next sync, and once more by the retry, which is of everything', async () => {
    agent.sourceSynced();
    await turns();
    const mend = failSyncs();
    agent.accept([put('s1', '10.1.1.1')]);
    await turns();
    mend();
    const facts: SyncFacts[] = [];
    agent.listen({ onSync: (fact) => facts.push(fact) });
    agent.accept([put('s2', '10.1.1.2')]);
    await turns();
    expect(frontends()).toBe(2);
    expect(facts.map(({ isComplete, isFull }) => [isComplete, isFull])).toEqual([[false, false]]);
    expect(agent.state().failed).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(facts.map(({ isComplete, isFull }) => [isComplete, isFull]).slice(1)).toEqual([
      [true, true],
    ]);
    expect(agent.state().failed).toEqual([]);
  });

  test('so is one before which the question who serves packets throws', async () => {
    agent.stop();
    const beforeSync = vi.fn(async () => undefined);
    agent = createAgent({
      ...{ planner, dataplane: composed, addresses, auditIntervalMs: AUDIT_MS, beforeSync },
      log: createLogger('error', 'json'),
    });
    agent.sourceSynced();
    await turns();
    beforeSync.mockRejectedValueOnce(new Error('EIO'));
    agent.accept([put('s1', '10.1.1.1')]);
    await turns();
    expect(frontends()).toBe(0);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(frontends()).toBe(1);
  });

  test('everything is synced when packets have moved before it', async () => {
    agent.stop();
    const beforeSync = vi.fn(async () => undefined);
    const moving = createMoving(dataplane, async (fallback) => ({
      rules: memoryDataplane(memoryTables()),
      fallback,
    }));
    agent = createAgent({
      ...{ planner, dataplane: moving, addresses, auditIntervalMs: AUDIT_MS, beforeSync },
      log: createLogger('error', 'json'),
    });
    agent.accept([put('s2', '10.1.1.2')]);
    agent.sourceSynced();
    await turns();
    syncs = [];
    beforeSync.mockImplementationOnce(async () => void (await moving.movePackets?.('a filter')));
    agent.accept([put('s1', '10.1.1.1')]);
    await turns();
    expect(syncs[0]).toBe('all');
  });

  test('at start delays readiness only until everything is programmed, by an audit too', async () => {
    const mend = failSyncs();
    agent.accept([put('s1', '10.1.1.1')]);
    agent.sourceSynced();
    await turns();
    mend();
    await agent.audit();
    expect(frontends()).toBe(1);
    expect(agent.state().isReady).toBe(true);
  });
});

test('an audit that ends while a change is being synced does not report it as programmed', async () => {
  agent.sourceSynced();
  await turns();
  const facts: Pick<SyncFacts, 'isFull' | 'isComplete'>[] = [];
  agent.listen({ onSync: ({ isFull, isComplete }) => facts.push({ isFull, isComplete }) });
  const [sync, audit] = [dataplane.sync.bind(dataplane), dataplane.audit.bind(dataplane)];
  let go = (): void => undefined;
  const audited = new Promise<void>((resolve) => {
    go = resolve;
  });
  dataplane.audit = (...asked) => audited.then(() => audit(...asked));
  dataplane.sync = async (...asked) => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return sync(...asked);
  };
  const auditing = agent.audit();
  agent.accept([put('s1', '10.1.1.1')]);
  await turns();
  go();
  await auditing;
  expect(facts).toEqual([{ isFull: true, isComplete: false }]);
  await vi.advanceTimersByTimeAsync(101);
  expect(facts.at(-1)).toEqual({ isFull: false, isComplete: true });
});

describe('what has changed since it was programmed', () => {
  const names: string[] = [];
  const told = (): readonly string[] => names.splice(0);
  /** `s1 none>10.1.1.1`: of each sync. */
  const backendsOf = (service: ServicePlan | undefined): string =>
    service?.ports[0]?.cluster.map(({ address }) => address).join() ?? 'none';

  beforeEach(async () => {
    agent.stop();
    const real = createPlanner(SETTINGS);
    agent = createAgent({
      ...{ planner: real, dataplane: composed, addresses, auditIntervalMs: AUDIT_MS },
      log: createLogger('error', 'json'),
    });
    agent.listen({
      onSync: ({ changes }) => {
        for (const [key, { before, after }] of changes)
          names.push(`${key} ${backendsOf(before)}>${backendsOf(after)}`);
      },
    });
    agent.accept([service('s1', 1), slice('s1', [ready('10.1.1.1')])]);
    agent.sourceSynced();
    await turns();
    expect(told()).toEqual(['default/s1 none>10.1.1.1']);
  });

  test('is told once, with what it was', async () => {
    agent.accept([slice('s1', [ready('10.1.1.2')])]);
    await turns();
    expect(told()).toEqual(['default/s1 10.1.1.1>10.1.1.2']);
    await agent.audit();
    await vi.advanceTimersByTimeAsync(AUDIT_MS);
    expect(told()).toEqual([]);
  });

  test('is told after the retry, if it could not be programmed', async () => {
    const sync = dataplane.sync.bind(dataplane);
    const failure = {
      id: {},
      text: '',
      code: 'WRITE_FAILED',
      reason: 'no',
    } as never as FailedEntry;
    dataplane.sync = async () => ({
      ...{ applied: 0, elapsedMs: 0, failed: [{ ...failure, service: 'default/s1' }] },
    });
    agent.accept([slice('s1', [ready('10.1.1.2')])]);
    await turns();
    dataplane.sync = () => Promise.reject(new Error('no kernel'));
    agent.accept([slice('s1', [ready('10.1.1.3')])]);
    await turns();
    expect(told()).toEqual([]);
    dataplane.sync = sync;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(told()).toEqual(['default/s1 10.1.1.1>10.1.1.3']);
  });

  test('is told after an audit that could program it, where a sync could not', async () => {
    const sync = dataplane.sync.bind(dataplane);
    dataplane.sync = () => Promise.reject(new Error('no kernel'));
    agent.accept([slice('s1', [ready('10.1.1.2')])]);
    await turns();
    dataplane.sync = sync;
    await agent.audit();
    await turns();
    expect(told()).toEqual(['default/s1 10.1.1.1>10.1.1.2']);
  });

  test('is told at once if it is served in another way than it should be, and that is retried', async () => {
    const sync = dataplane.sync.bind(dataplane);
    const lack = { id: {}, text: '', code: 'MAP_FULL', reason: 'no', service: 'default/s1' };
    dataplane.sync = async () => ({
      ...{ applied: 1, elapsedMs: 0, failed: [{ ...lack, isServed: true } as never] },
    });
    agent.accept([slice('s1', [ready('10.1.1.2')])]);
    await turns();
    expect(told()).toEqual(['default/s1 10.1.1.1>10.1.1.2']);
    expect(agent.state().failed).toHaveLength(1);
    dataplane.sync = sync;
    await vi.advanceTimersByTimeAsync(60_000);
    expect([told(), agent.state().failed]).toEqual([[], []]);
  });

  test('is told of a Service that is gone', async () => {
    agent.accept([remove('s1')]);
    await turns();
    expect(told()).toEqual(['default/s1 10.1.1.1>none']);
  });
});

describe('timers', () => {
  test('the audit repairs what was changed by hand, and counts it', async () => {
    agent.accept([put('s1', '10.1.1.1')]);
    agent.sourceSynced();
    await turns();
    tables.frontend.IPv4.delete(tables.frontend.IPv4.readAll().map(({ key }) => key));
    await vi.advanceTimersByTimeAsync(AUDIT_MS + 1);
    expect(frontends()).toBe(1);
    expect(agent.state().driftTotal).toBe(2);
  });

  test('an audit that fails is shown, and run again until one succeeds', async () => {
    agent.accept([put('s1', '10.1.1.1')]);
    agent.sourceSynced();
    await turns();
    const facts: SyncFacts[] = [];
    agent.listen({ onSync: (fact) => facts.push(fact) });
    tables.frontend.IPv4.delete(tables.frontend.IPv4.readAll().map(({ key }) => key));
    const { audit } = dataplane;
    dataplane.audit = () => Promise.reject(new Error('EIO'));
    await vi.advanceTimersByTimeAsync(AUDIT_MS + 1);
    const { sync } = dataplane;
    dataplane.sync = () => Promise.reject(new Error('ENOMEM'));
    agent.accept([put('s2', '10.1.1.2')]);
    await turns();
    dataplane.sync = sync;
    await vi.advanceTimersByTimeAsync(AUDIT_MS / 2);
    // Syncs go on, and say nothing of the audit.
    expect(facts.some(({ isFull, isComplete }) => isFull && isComplete)).toBe(true);
    expect(agent.state().failed).toMatchObject([{ code: 'WRITE_FAILED', reason: 'EIO' }]);
    dataplane.audit = audit;
    await vi.advanceTimersByTimeAsync(AUDIT_MS / 2);
    expect(frontends()).toBe(2);
    expect(agent.state()).toMatchObject({ driftTotal: 2, failed: [] });
  });

  test('addresses of the node are followed at once', async () => {
    agent.sourceSynced();
    await turns();
    expect(tables.nodeAddress.IPv4.readAll()).toHaveLength(1);
    local = [...local, { family: 'IPv4', address: '192.0.2.12' }];
    localChanged();
    await turns();
    expect(tables.nodeAddress.IPv4.readAll()).toHaveLength(2);
  });

  test('nothing happens after stop', async () => {
    agent.accept([put('s1', '10.1.1.1')]);
    agent.sourceSynced();
    agent.stop();
    await vi.advanceTimersByTimeAsync(AUDIT_MS * 2);
    expect(frontends()).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});

test('of Services without an age the one that is programmed keeps its frontend across a restart', async () => {
  const asks = (name: string): ObjectChange => service(name, 1, { ports: [{ port: 80 }] });
  const begin = (...changes: ObjectChange[]): void => {
    agent.stop();
    agent = createAgent({
      ...{
        planner: createPlanner(SETTINGS),
        dataplane: composed,
        addresses,
        auditIntervalMs: AUDIT_MS,
      },
      log: createLogger('error', 'json'),
    });
    agent.accept(changes);
    agent.sourceSynced();
  };
  const owners = async (): Promise<string[]> =>
    [...(await dataplane.held())].flatMap(({ id, service: key }) => (id.port === 80 ? [key] : []));
  begin(asks('web'));
  await turns();
  expect(await owners()).toEqual(['default/web']);
  restart();
  begin(asks('web'), asks('aaa'));
  await turns(10);
  expect(agent.state().isReady).toBe(true);
  expect(await owners()).toEqual(['default/web']);
  dataplane.held = () => Promise.reject(new Error('EIO'));
  begin(asks('web'), asks('aaa'));
  await turns(10);
  expect(agent.state().isReady).toBe(true);
  const aaa = agent.state().plan?.services.get('default/aaa');
  expect(aaa?.ports[0]?.frontends).toHaveLength(1);
});
