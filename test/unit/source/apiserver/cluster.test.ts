// SPDX-License-Identifier: Apache-2.0
// All kinds together: when the initial sync may begin, and what is reported.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  ownNode,
  SERVICE_CIDRS,
  SERVICES,
  SLICES,
} from '../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../src/source/apiserver/limits.ts';
import { readRemembered } from '../../../../src/source/apiserver/transport/remembered.ts';
import { IN_CLUSTER_NAME } from '../../../../src/source/apiserver/transport/servers.ts';
import { until } from '../../../support/until.ts';
import { type FakeApiServer, status } from './support/fake-api-server.ts';
import { type ClusterOverrides, followCluster, openServer } from './support/harness.ts';
import { node, service, slice } from './support/objects.ts';
import { AUTHORITY_A } from './support/tls.ts';
import { idle } from './support/traffic.ts';

const NODE = ownNode('n1');

const open = (
  server: FakeApiServer,
  over: ClusterOverrides = {},
  handlers: { readonly onSynced?: () => void } = {},
) => followCluster(server, { watchesServiceCidrs: true, ...over }, handlers);

async function fullServer(...tls: Parameters<typeof openServer>): Promise<FakeApiServer> {
  const server = await openServer(...tls);
  server.put(SERVICES.path, service('web'));
  server.put(SLICES.path, slice('web-1'));
  server.put(NODE.path, node('n1'));
  server.put(SERVICE_CIDRS.path, { metadata: { name: 'kubernetes' }, spec: {} });
  return server;
}

/** Holds back the answers to one kind until the result is called. */
function holdBack(server: FakeApiServer, path: string): () => void {
  server.fault = (seen) => seen.path === path;
  return () => {
    server.fault = undefined;
    for (const socket of server.sockets) socket.destroy();
  };
}

describe('the first sync', () => {
  test("comes after Services, slices and this node's Node, once, and ServiceCIDRs do not matter", async () => {
    const server = await fullServer();
    server.fault = ({ path }, response) => {
      if (path !== SERVICE_CIDRS.path) return false;
      status(response, 404, 'no such resource');
      return true;
    };
    const { events, cluster } = open(server);
    await until(() => events.includes('synced'), 'synced');
    expect(events.slice(0, 3).sort()).toEqual([
      'put EndpointSlice web-1',
      'put Node n1',
      'put Service web',
    ]);
    expect(events.slice(3)).toEqual(['synced']);
    expect(cluster.status().isSynced).toBe(true);
    expect(cluster.problems()).toEqual([]);
  });

  test.each([
    ['Services', SERVICES.path],
    ['slices', SLICES.path],
  ])('waits for %s however long it takes', async (_kind, path) => {
    const server = await fullServer();
    const letGo = holdBack(server, path);
    const { events, clock } = open(server);
    await until(() => events.length === 3, 'the other kinds');
    clock.advance(LIMITS.nodeWaitMs - 1);
    await idle();
    clock.advance(1);
    await idle();
    expect(events).not.toContain('synced');
    letGo();
    for (let tries = 0; tries < 50 && !events.includes('synced'); tries += 1) {
      clock.advance(1_000);
      await idle();
    }
    expect(events.filter((event) => event === 'synced')).toHaveLength(1);
  });

  test('waits 30 s for the Node to exist, then continues', async () => {
    const server = await fullServer();
    server.remove(NODE.path, 'n1', '');
    const { events, clock } = open(server);
    await until(() => events.length === 3, 'the other kinds');
    await idle();
    clock.advance(LIMITS.nodeWaitMs - 1);
    expect(events).not.toContain('synced');
    clock.advance(1);
    expect(events).toContain('synced');
  });

  test('continues at once when the Node appears', async () => {
    const server = await fullServer();
    server.remove(NODE.path, 'n1', '');
    const { events, watching } = open(server);
    await watching();
    expect(events).not.toContain('synced');
    server.put(NODE.path, node('n1'));
    await until(() => events.includes('synced'), 'synced');
    expect(events.at(-2)).toBe('put Node n1');
  });

  test('an onSynced that throws breaks nothing', async () => {
    const server = await fullServer();
    const { events, cluster } = open(
      server,
      {},
      {
        onSynced() {
          throw new Error('no');
        },
      },
    );
    await until(() => events.includes('synced'), 'synced');
    server.put(SERVICES.path, service('api'));
    await until(() => events.includes('put Service api'), 'the change');
    expect(cluster.status().isSynced).toBe(true);
  });
});

test('a server that has lost everything is suspicious, and nothing is removed', async () => {
  const server = await fullServer();
  const { events, clock, watching } = open(server);
  await watching();
  events.length = 0;
  for (const path of [SERVICES.path, SLICES.path]) server.resetWatches(path);
  server.forgetAll();
  server.compacted = server.version;
  for (let tries = 0; tries < 8 && events.length < 2; tries += 1) {
    clock.advance(400);
    await idle();
  }
  expect(events.sort()).toEqual([
    'suspicious EndpointSlice: list is empty',
    'suspicious Service: list is empty',
  ]);
});

test('problems are reported as a complete list when they appear and when they clear', async () => {
  const server = await fullServer();
  server.fault = ({ path }, response) => {
    if (path !== NODE.path) return false;
    status(response, 403, 'nodes is forbidden');
    return true;
  };
  const { problems, clock, cluster } = open(server);
  for (let tries = 0; tries < 8 && problems.length === 0; tries += 1) {
    await idle();
    clock.advance(1_000);
  }
  expect(problems).toEqual([[{ kind: 'Node', reason: 'HTTP 403: nodes is forbidden' }]]);
  server.fault = undefined;
  for (let tries = 0; tries < 8 && problems.length === 1; tries += 1) {
    await idle();
    clock.advance(3_000);
  }
  expect(problems[1]).toEqual([]);
  expect(cluster.problems()).toEqual([]);
});

test('status has ages, sizes and counters of every watch', async () => {
  const server = await fullServer();
  const { clock, cluster, watching } = open(server);
  await until(() => cluster.status().isSynced, 'synced');
  await watching();
  clock.advance(7_000);
  const { watches, ...rest } = cluster.status();
  expect(rest).toMatchObject({
    server: server.url,
    servers: [server.url],
    winner: 'api-server flag',
    why: 'the test says so',
    rotations: 0,
    handlerErrors: 0,
    waitingChanges: 0,
    unauthorizedRetries: 0,
  });
  expect(watches.map(({ kind }) => kind)).toEqual([
    'Service',
    'EndpointSlice',
    'Node',
    'ServiceCIDR',
  ]);
  for (const watch of watches) {
    expect(watch).toMatchObject({
      isSynced: true,
      objects: 1,
      heldRemovals: 0,
      listAgeMs: 7_000,
      bookmarkAgeMs: 7_000,
      aliveAgeMs: 7_000,
    });
    expect(watch.counters).toMatchObject({ watchListStarts: 1, listStarts: 0, watchStarts: 0 });
    expect(watch.counters.events).toMatchObject({ ADDED: 1, BOOKMARK: 1 });
    expect(watch.counters.bytes).toBeGreaterThan(100);
    expect(watch.counters.decodeSeconds).toBeGreaterThan(0);
  }
});

test('every request is reported with its result', async () => {
  const server = await fullServer();
  server.fault = ({ path }, response) => {
    if (path !== SERVICE_CIDRS.path) return false;
    status(response, 404, 'no such resource');
    return true;
  };
  const { requests, cluster, clock } = open(server);
  await until(() => cluster.status().isSynced, 'synced');
  await until(() => requests.length >= 4, 'four requests');
  await server.close();
  await until(() => cluster.status().watches.some(({ state }) => state === 'waiting'), 'a pause');
  const failed = () => requests.find(({ code }) => code === '<error>');
  for (let tries = 0; tries < 50 && failed() === undefined; tries += 1) {
    clock.advance(1_000);
    await idle();
  }
  const { host } = new URL(server.url);
  const [first] = requests;
  expect(first).toEqual({ method: 'GET', host, code: '200', durationMs: 0 });
  expect(
    requests
      .slice(0, 4)
      .map(({ code }) => code)
      .sort(),
  ).toEqual(['200', '200', '200', '404']);
  expect(failed()).toMatchObject({ method: 'GET', host });
});

test('close() leaves no connection and no timer, and calls nobody', async () => {
  const server = await fullServer();
  const { clock, cluster, events } = open(server);
  await until(() => cluster.status().isSynced, 'synced');
  await Promise.all([cluster.close(), cluster.close()]);
  await until(() => server.sockets.size === 0, 'the end of all connections');
  events.length = 0;
  server.put(SERVICES.path, service('late'));
  await idle();
  expect(clock.delaysMs()).toEqual([]);
  expect(events).toEqual([]);
});

test('other Nodes are followed from the first request on, apart from this one', async () => {
  const server = await fullServer();
  server.put(NODE.path, node('n2'));
  const { cluster, events, watching } = open(server);
  await watching();
  expect(events).not.toContain('put Node n2');
  cluster.followNodes();
  cluster.followNodes();
  await until(() => events.includes('nodes'), 'the nodes');
  expect(events.indexOf('put Node n2')).toBeLessThan(events.indexOf('nodes'));
  await watching();
  const asked = server.seen.filter(({ path }) => path === NODE.path);
  expect(new Set(asked.map(({ query }) => query.get('fieldSelector')))).toEqual(
    new Set(['metadata.name=n1', 'metadata.name!=n1']),
  );
  expect(cluster.status().watches.map(({ kind }) => kind)).toContain('OtherNodes');
  // A heartbeat is no change, and neither counts as this node's Node.
  const before = events.length;
  server.put(NODE.path, node('n2', 1));
  server.remove(NODE.path, 'n2', '');
  await until(() => events.includes('remove Node n2'), 'its end');
  expect(events.slice(before)).toEqual(['remove Node n2']);
});

describe('several servers', () => {
  const at = (...servers: FakeApiServer[]) => ({
    apiServer: { servers: servers.map(({ url }) => ({ url, tlsName: undefined })) },
  });

  test('one that is down is replaced by the next, once for all kinds', async () => {
    const [down, up] = [await openServer(), await fullServer()];
    await down.close();
    const { clock, cluster } = open(up, at(down, up));
    await until(() => cluster.status().rotations === 1, 'the rotation');
    await idle();
    clock.advance(1_000);
    await until(() => cluster.status().isSynced, 'synced');
    expect(cluster.status()).toMatchObject({ server: up.url, rotations: 1 });
  });

  test('one that returns 500 is replaced; one that returns 429 stays', async () => {
    const [sick, up] = [await openServer(), await fullServer()];
    let code = 429;
    sick.fault = (_seen, response) => {
      status(response, code, 'no');
      return true;
    };
    const { clock, cluster } = open(up, at(sick, up));
    await until(() => sick.seen.length === 4, 'the first tries');
    await idle();
    expect(cluster.status().rotations).toBe(0);
    code = 500;
    clock.advance(1_000);
    await until(() => cluster.status().rotations === 1, 'the rotation');
    await idle();
    for (let tries = 0; tries < 5 && !cluster.status().isSynced; tries += 1) {
      clock.advance(2_000);
      await idle();
    }
    expect(cluster.status()).toMatchObject({ isSynced: true, server: up.url });
  });

  test('endpoints of default/kubernetes are remembered on disk, and used after the configured', async () => {
    const runDir = await mkdtemp(join(tmpdir(), 'fairlead-run-'));
    onTestFinished(() => rm(runDir, { recursive: true }));
    await writeFile(join(runDir, 'ca.crt'), AUTHORITY_A.ca);
    await writeFile(join(runDir, 'token'), 't');
    const server = await fullServer(AUTHORITY_A);
    const owner = { 'kubernetes.io/service-name': 'kubernetes' };
    server.put(SLICES.path, slice('kubernetes', ['192.0.2.7', '192.0.2.8'], owner));
    server.put(SLICES.path, slice('k6', ['2001:db8::7'], owner));
    const { cluster } = open(server, {
      runDir,
      apiServer: {
        servers: [{ url: server.url, tlsName: IN_CLUSTER_NAME }],
        credentials: { kind: 'service-account', dir: runDir },
      },
    });
    const found = [
      'https://192.0.2.7:6443',
      'https://192.0.2.8:6443',
      'https://[2001:db8::7]:6443',
    ];
    await until(() => cluster.status().servers.length === 4, 'the endpoints');
    expect(cluster.status().servers).toEqual([server.url, ...found]);
    await cluster.close();
    let remembered: readonly string[] = [];
    for (let tries = 0; tries < 100 && remembered.length < 3; tries += 1) {
      await idle();
      remembered = await readRemembered(runDir);
    }
    expect(remembered).toEqual(found);
  });

  test('no servers are learnt from an http server', async () => {
    const server = await fullServer();
    const owner = { 'kubernetes.io/service-name': 'kubernetes' };
    server.put(SLICES.path, slice('kubernetes', ['192.0.2.7'], owner));
    const { cluster } = open(server);
    await until(() => cluster.status().isSynced, 'synced');
    expect(cluster.status().servers).toEqual([server.url]);
  });
});

test('an unreadable file of remembered servers is ignored', async () => {
  const runDir = await mkdtemp(join(tmpdir(), 'fairlead-run-'));
  onTestFinished(() => rm(runDir, { recursive: true }));
  expect(await readRemembered(runDir)).toEqual([]);
  for (const text of ['', '{', '[]', '{"format":2,"urls":["https://a"]}']) {
    await writeFile(join(runDir, 'api-servers.json'), text);
    expect(await readRemembered(runDir)).toEqual([]);
  }
  const mixed = '{"format":1,"urls":["https://a:1",7,"http://b","nonsense"]}';
  await writeFile(join(runDir, 'api-servers.json'), mixed);
  expect(await readRemembered(runDir)).toEqual(['https://a:1']);
  expect(await readFile(join(runDir, 'api-servers.json'), 'utf8')).toBe(mixed);
});
