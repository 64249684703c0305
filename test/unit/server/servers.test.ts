// SPDX-License-Identifier: Apache-2.0
// The servers on real ports of loopback: what arrives, what was synced, and what they respond.
import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SyncFacts } from '../../../src/agent/agent.ts';
import type { Fallback } from '../../../src/engines/snapshot.ts';
import { createLogger } from '../../../src/log.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import type { Plan, ServicePlan } from '../../../src/plan/types.ts';
import { EVENTS, type KubeEvent } from '../../../src/server/events/event.ts';
import { openServers, type Servers, type ServersSettings } from '../../../src/server/servers.ts';
import { failedEntry } from '../../support/dataplane/failed-entry.ts';
import { nodeObject, put, serviceObject, sliceObject } from '../../support/objects.ts';
import { planOf } from '../engines/bpf/plans.ts';
import { agentReaders } from './readers.ts';

let servers: Servers;
let healthz: number;
let metrics: number;
let events: KubeEvent[];
let isReady: boolean;

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });

let fallback: Fallback | undefined;

/** A port of all addresses that somebody else has. */
const holdPort = (): Promise<{ readonly port: number; close(): void }> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '0.0.0.0', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      resolve({ port, close: () => server.close() });
    });
  });

const withHealthCheck = (port: number): ServicePlan => ({
  namespace: 'default',
  name: 'web',
  type: 'LoadBalancer',
  ports: [],
  healthCheck: { port, families: ['IPv4'], localEndpoints: { IPv4: 2, IPv6: 0 } },
});

async function open(
  plan?: Plan,
  taken: readonly [number, number] | [] = [],
  over: Partial<ServersSettings> = {},
): Promise<void> {
  [healthz, metrics] = taken.length === 2 ? taken : [await freePort(), await freePort()];
  events = [];
  isReady = false;
  servers = await openServers({
    settings: {
      flagz: () => ({}),
      nodeName: 'n1',
      healthz: { host: '127.0.0.1', port: healthz },
      metrics: { host: '127.0.0.1', port: metrics },
      isBindFailureFatal: false,
      syncPeriodMs: 30_000,
      configz: () => ({ mode: 'test' }),
      ...over,
    },
    readers: agentReaders({ isReady: () => isReady, plan: () => plan, fallback: () => fallback }),
    sender: {
      post: (event) => {
        events.push(event);
        return Promise.resolve();
      },
    },
    localAddresses: () => ['127.0.0.1'],
    log: createLogger('error', 'json'),
  });
}

async function get(port: number, path: string): Promise<{ status: number; body: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, body: await response.text() };
}

const node = (spec: object = {}): ObjectChange => put(nodeObject('n1', { spec }));

const synced = (over: Partial<SyncFacts> = {}): SyncFacts => ({
  plan: planOf(),
  services: [],
  changes: new Map(),
  report: { applied: 1, failed: [], elapsedMs: 2 },
  isFull: false,
  isComplete: true,
  ...over,
});

beforeEach(() => open());
afterEach(() => servers.close());

describe('the health port', () => {
  test('the node is not eligible until it is known, nor while it is to be deleted or gone', async () => {
    expect(await get(healthz, '/healthz')).toMatchObject({ status: 503 });
    expect(await get(healthz, '/livez')).toMatchObject({ status: 200 });
    servers.arrived([node()]);
    servers.synced(synced());
    expect(await get(healthz, '/healthz')).toMatchObject({ status: 200 });
    servers.arrived([node({ taints: [{ key: 'ToBeDeletedByClusterAutoscaler' }] })]);
    expect(await get(healthz, '/healthz')).toMatchObject({ status: 503 });
    servers.arrived([node(), { type: 'remove', ref: node().ref }]);
    expect(await get(healthz, '/healthz')).toMatchObject({ status: 503 });
    expect(await get(healthz, '/livez')).toMatchObject({ status: 200 });
  });

  test('another node’s object says nothing of this one', async () => {
    servers.arrived([put(nodeObject('n2'))]);
    expect(await get(healthz, '/healthz')).toMatchObject({ status: 503 });
  });

  test('readiness is that of the first sync', async () => {
    expect(await get(healthz, '/readyz')).toMatchObject({ status: 503 });
    isReady = true;
    expect(await get(healthz, '/readyz')).toMatchObject({ status: 200 });
  });
});

describe('the metrics port', () => {
  const series = async (name: string): Promise<string> =>
    (await get(metrics, '/metrics')).body
      .split('\n')
      .filter((line) => line.startsWith(name))
      .join('\n');

  test('counts what arrived and what was synced, per family', async () => {
    servers.arrived([node(), put(serviceObject('b'))]);
    servers.synced(synced({ services: ['a/b'] }));
    expect(await series('kubeproxy_sync_proxy_rules_service_changes_total')).toMatch(/ 1$/);
    expect(await series('kubeproxy_sync_proxy_rules_duration_seconds_count')).toContain(
      'ip_family="IPv4"',
    );
    expect(await get(metrics, '/configz')).toMatchObject({
      status: 200,
      body: expect.stringContaining('test'),
    });
  });

  test('time from the change of a slice to the kernel, once it is complete, and not for old changes', async () => {
    const slice = (at: Date): ObjectChange => {
      const annotations = {
        'endpoints.kubernetes.io/last-change-trigger-time': at.toISOString(),
      };
      const sections = { addressType: 'IPv6', metadata: { name: 's', annotations } };
      return put(sliceObject('s', [], sections));
    };
    servers.arrived([slice(new Date(Date.now() - 3_600_000)), slice(new Date(Date.now() + 1))]);
    servers.synced(synced({ isComplete: false }));
    expect(await series('kubeproxy_network_programming_duration_seconds_count')).not.toMatch(
      / 1$/m,
    );
    servers.synced(synced());
    expect(
      await series('kubeproxy_network_programming_duration_seconds_count{ip_family="IPv6"}'),
    ).toMatch(/ 1$/);
  });
});

describe('metrics the servers feed themselves', () => {
  const value = async (name: string): Promise<string | undefined> =>
    (await get(metrics, '/metrics')).body.split('\n').find((line) => line.startsWith(`${name} `));
  const service = (name: string): ObjectChange => put(serviceObject(name));
  const PENDING = 'kubeproxy_sync_proxy_rules_service_changes_pending';

  test('pending changes: distinct objects, until a sync is complete', async () => {
    servers.arrived([service('b'), service('b'), service('c')]);
    servers.synced(synced({ isComplete: false }));
    expect(await value(PENDING)).toBe(`${PENDING} 2`);
    servers.synced(synced());
    expect(await value(PENDING)).toBe(`${PENDING} 0`);
  });

  test('eligibility, listening servers, and a configuration file that changed and changed back', async () => {
    servers.arrived([node()]);
    expect(await value('fairlead_node_eligible')).toMatch(/ 1$/);
    expect(await value('fairlead_listening{server="healthz"}')).toMatch(/ 1$/);
    for (const isChanged of [true, false]) {
      servers.configWritten({ path: '/etc/config.yaml', isChanged });
      expect(await value('fairlead_config_reload_needed')).toMatch(isChanged ? / 1$/ : / 0$/);
    }
    await servers.events.idle();
    expect(events.map(({ reason }) => reason)).toEqual([
      'Starting',
      'ModeSelected',
      'ConfigReloadNeeded',
    ]);
  });

  test('a sync without Services takes no time from the histogram', async () => {
    servers.synced(synced());
    expect(await value('kubeproxy_sync_proxy_rules_duration_seconds_count')).toBeUndefined();
  });
});

test('what was rejected of a Service is told on it, once while it lasts', async () => {
  const rejection = (name: string) => ({
    object: { kind: 'Service' as const, namespace: 'default', name },
    field: 'spec.ports[0].port',
    reason: 'must be 1..65535',
  });
  const node = {
    object: { kind: 'Node' as const, namespace: '', name: 'n1' },
    field: '',
    reason: '',
  };
  for (const rejections of [[rejection('a')], [rejection('a'), rejection('b'), node]]) {
    servers.synced(synced({ plan: { ...planOf(), rejections } }));
  }
  await servers.events.idle();
  const told = events.filter(({ reason }) => reason === 'InvalidService');
  expect(told.map(({ regarding, note }) => [regarding.name, note])).toEqual([
    ['a', 'spec.ports[0].port: must be 1..65535'],
    ['b', 'spec.ports[0].port: must be 1..65535'],
  ]);
});

test('who serves packets is told again when they move', async () => {
  fallback = { what: 'packets', reason: 'a firewall' };
  servers.packetsMoved();
  fallback = undefined;
  await servers.events.idle();
  expect(events.at(-1)).toMatchObject({
    reason: 'ModeSelected',
    note: expect.stringContaining('packets by iptables, because a firewall'),
  });
});

test('a full map is told on the Service it hit', async () => {
  const failed = [
    failedEntry(),
    failedEntry({ code: 'WRITE_FAILED', service: 'default/other', reason: 'ENOMEM' }),
  ];
  servers.synced(synced({ isComplete: false, report: { applied: 0, failed, elapsedMs: 1 } }));
  await servers.events.idle();
  expect(events.map(({ reason, regarding }) => [reason, regarding.name])).toEqual([
    ['Starting', 'n1'],
    ['ModeSelected', 'n1'],
    ['MapFull', 'web'],
  ]);
});

/** Recorded some time after its cause, events/refused-devices.test.ts, or by another part, agent/host-rules. */
const LATER = ['XDPRefused'];

test('every documented Event is recorded by its cause', async () => {
  servers.close();
  const holders = await Promise.all([holdPort(), holdPort(), holdPort()]);
  const [first = 0, second = 0, third = 0] = holders.map(({ port }) => port);
  await open(undefined, [first, second]);
  const rejections = [
    {
      object: { kind: 'Service' as const, namespace: 'a', name: 'b' },
      field: 'spec',
      reason: 'no',
    },
  ];
  const failed = [failedEntry({ service: 'a/b' })];
  const plan = { ...planOf(), rejections, services: new Map([['a/b', withHealthCheck(third)]]) };
  servers.synced(synced({ plan, report: { applied: 0, failed, elapsedMs: 1 }, isComplete: false }));
  servers.synced(synced({ plan, services: ['a/b'] }));
  servers.configWritten({ path: 'config.yaml', isChanged: true });
  const topic = 'marks' as const;
  servers.shadowSeen({
    ...{ rules: [], services: 1, differences: {}, unread: [], isOpen: false, isDue: false },
    differing: [{ service: 'a/b', what: 'w' }],
  });
  servers.nodeConflicts([{ topic, what: 'w', consequence: 'c', breaksServices: true }]);
  await expect
    .poll(() => [...new Set(events.map(({ reason }) => reason))].sort())
    .toEqual(
      Object.keys(EVENTS)
        .filter((reason) => !LATER.includes(reason))
        .sort(),
    );
  for (const holder of holders) holder.close();
});

test('with --shadow the health check ports are left to kube-proxy', async () => {
  servers.close();
  await open(undefined, [], { hasServiceHealth: false });
  const port = await freePort();
  const services = new Map([['default/web', withHealthCheck(port)]]);
  servers.synced(synced({ plan: { ...planOf(), services }, services: ['default/web'] }));
  await servers.portsSynced();
  await expect(get(port, '/')).rejects.toThrow();
});

test('health check ports follow the plan after a complete sync, and close with the servers', async () => {
  const port = await freePort();
  const plan = planOf();
  const withWeb = { ...plan, services: new Map([['default/web', withHealthCheck(port)]]) };
  servers.synced(synced({ plan: withWeb, services: ['default/web'], isComplete: false }));
  servers.synced(synced({ plan: withWeb }));
  await expect
    .poll(() => get(port, '/').catch(() => undefined))
    .toMatchObject({
      status: 200,
      body: expect.stringContaining('"localEndpoints": 2'),
    });
  servers.close();
  await expect
    .poll(() =>
      get(port, '/').then(
        () => 'open',
        () => 'closed',
      ),
    )
    .toBe('closed');
});
