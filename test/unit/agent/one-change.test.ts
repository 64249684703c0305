// SPDX-License-Identifier: Apache-2.0
// What a change of one Service costs does not grow with the number of Services: from the source to the tables and to those
// who report it, nobody reads a collection of all of them.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Agent, createAgent } from '../../../src/agent/agent.ts';
import { createConntrackCleaner } from '../../../src/agent/conntrack/cleaner.ts';
import { NO_FEATURES } from '../../../src/engines/bpf/features.ts';
import { followPing } from '../../../src/engines/bpf/rows/ping.ts';
import type { ComposedDataplane } from '../../../src/engines/dataplane.ts';
import { createRouter } from '../../../src/engines/router/router.ts';
import { createDirectReturn } from '../../../src/instance/direct-return/direct-return.ts';
import { persistentMap } from '../../../src/lib/persistent/map.ts';
import { createLogger } from '../../../src/log.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import { createPlanner } from '../../../src/plan/planner.ts';
import { openServers, type Servers } from '../../../src/server/servers.ts';
import { memoryDataplane } from '../../support/dataplane/memory-dataplane.ts';
import { remove } from '../../support/objects.ts';
import { createMemoryTables } from '../../support/tables/memory.ts';
import { ready, SETTINGS, service, slice } from '../plan/support.ts';
import { agentReaders } from '../server/readers.ts';
import { FakeClock } from '../source/apiserver/support/fake-clock.ts';

const SERVICES = 1_000;
const log = createLogger('error', 'json');

const addressOf = (number: number): string => `10.96.${number >> 8}.${number & 255}`;
const web = (number: number): ObjectChange =>
  service(`web${number}`, 1, { clusterIP: addressOf(number), clusterIPs: [addressOf(number)] });
const endpoints = (number: number, ...addresses: string[]): ObjectChange =>
  slice(
    `web${number}`,
    addresses.map((address) => ready(address)),
  );

const pings = { name: 'fl_ping', readAll: () => [], put: () => [], delete: () => [] };

/** Sizes of the large maps and Sets that are read from end to end, while they are watched. */
function watchCollections(): { readonly read: number[]; end(): void } {
  const read: number[] = [];
  const undos: (() => void)[] = [];
  const persistent = Object.getPrototypeOf(persistentMap());
  for (const kind of [Map.prototype, Set.prototype, persistent]) {
    for (const name of [Symbol.iterator, 'keys', 'values', 'entries', 'forEach'] as const) {
      const original = Object.getOwnPropertyDescriptor(kind, name)!;
      const value = function (this: Map<unknown, unknown>, ...args: unknown[]): unknown {
        if (this.size >= SERVICES / 2) read.push(this.size);
        return original.value.apply(this, args);
      };
      Object.defineProperty(kind, name, { ...original, value });
      undos.push(() => Object.defineProperty(kind, name, original));
    }
  }
  const end = (): void => {
    for (const undo of undos) undo();
  };
  return { read, end };
}

let agent: Agent;
let servers: Servers;
let dataplane: ComposedDataplane;
let isComplete: () => void;
let closers: (() => void)[];

/** Resolves when they are programmed. */
function change(...changes: readonly ObjectChange[]): Promise<void> {
  const done = new Promise<void>((resolve) => {
    isComplete = resolve;
  });
  servers.arrived(changes);
  agent.accept(changes);
  return done;
}

beforeEach(async () => {
  const sizes = { frontends: 8192, backends: 8192, slotBlocks: 8192, services: 4096 };
  const follow = followPing(pings, log);
  dataplane = createRouter([
    memoryDataplane(createMemoryTables(sizes), {
      packets: {
        ...{
          follow,
          begin: () => undefined,
          leaveNew: () => undefined,
          repair: () => undefined,
          audit: () => [],
        },
        ...{
          devices: () => [],
          servedDevices: () => [],
          fill: () => [],
          totals: () => undefined,
          hadDirectReturn: false,
          cookies: () => ({ sent: 'none', taken: ['none'] }),
          features: NO_FEATURES,
        },
        latestTotals: async () => undefined,
      },
    }),
  ]);
  agent = createAgent({
    ...{ planner: createPlanner(SETTINGS), dataplane, log, auditIntervalMs: 1e8 },
    addresses: { current: () => [], listen: () => undefined },
  });
  const parts = { nodeName: 'n1', isAble: () => true, hadFlows: false, source: {}, log };
  const directReturn = createDirectReturn({ ...parts, clock: new FakeClock() });
  const cleaner = createConntrackCleaner({
    ...{ clock: new FakeClock(), log, localAddresses: () => [], onCleaned: () => undefined },
    ...{ read: async () => ({ entries: 0, isWhole: true }), remove: async () => 0 },
  });
  servers = await openServers({
    settings: {
      ...{ nodeName: 'n1', healthz: undefined, metrics: undefined, isBindFailureFatal: false },
      ...{ syncPeriodMs: 30_000, configz: () => ({}), flagz: () => ({}) },
    },
    readers: agentReaders({ plan: () => agent.state().plan }),
    ...{ sender: { post: async () => undefined }, localAddresses: () => [], log },
  });
  closers = [agent, dataplane, directReturn, cleaner, servers].map(
    (part) => () => ('stop' in part ? part.stop() : part.close()),
  );
  agent.listen({ onPlan: (plan) => directReturn.planned(plan) });
  agent.listen({
    onSync: (facts) => {
      directReturn.synced(facts.plan, facts.isComplete);
      cleaner.synced(facts);
      servers.synced(facts);
      if (facts.isComplete) isComplete();
    },
  });
  const numbers = Array.from({ length: SERVICES }, (_, number) => number + 1);
  const first = change(...numbers.flatMap((n) => [web(n), endpoints(n, '10.1.1.1', '10.1.1.2')]));
  agent.sourceSynced();
  await first;
});

afterEach(() => {
  for (const close of closers) close();
});

test.each([
  ['other endpoints', endpoints(500, '10.1.1.2', '10.1.1.3')],
  ['no endpoints', endpoints(500)],
  ['a new Service', web(SERVICES + 1)],
  ['a Service that goes', remove(web(500))],
])('%s', async (_, one) => {
  const { syncs } = agent.state();
  const { read, end } = watchCollections();
  try {
    await change(one);
  } finally {
    end();
  }
  expect(agent.state().syncs).toBe(syncs + 1);
  expect(read).toEqual([]);
});

test('one that reads them is found', () => {
  const { read, end } = watchCollections();
  for (const _ of agent.state().plan?.services.values() ?? []) break;
  end();
  expect(read).toEqual([SERVICES]);
});
