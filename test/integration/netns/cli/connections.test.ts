// SPDX-License-Identifier: Apache-2.0
// `fairlead connections` and the counters of packets on a live agent: a client outside and a client pod, each with
// connections of its own, with the agent and without it.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ConnectionRow } from '../../../../src/observe/connection-rows.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { type Client, type OpenSocket, startClient } from '../../../../tools/lab/traffic.ts';
import { slices } from '../../../support/builders.ts';
import { PACKET_METRICS, Scrapes } from '../../../support/http/scrape.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { clusterIp, nodeObject, serviceObject } from '../../../support/objects.ts';
import { untilHolds } from '../../../support/until.ts';

const UPLINK = '192.168.77.1';
const OUTSIDE = '192.168.77.2';
const CLUSTER_IP = '10.96.0.10';
/** A round of the sweep, which counts flows, takes 10 s. */
const SWEPT_MS = 60_000;
const PORTS = { TCP: 30_080, UDP: 30_053 } as const;

let all: TestNodes;
let node: TestNode;
let outside: Client;
let agent: Agent;
let scrapes: Scrapes;
const opened: OpenSocket[] = [];

const slicesOf = (pods: readonly string[]) =>
  (['TCP', 'UDP'] as const).flatMap((protocol) =>
    slices(
      protocol === 'TCP' ? 'web' : 'dns',
      node.pods(...pods).map((pod) => ({ pod })),
      { targetPort: protocol === 'TCP' ? 8080 : 5353, protocol },
    ).filter((slice) => slice['addressType'] === 'IPv4'),
  );

function labelledService(name: string, address: string, protocol: 'TCP' | 'UDP') {
  const [port, targetPort] = protocol === 'TCP' ? [80, 8080] : [53, 5353];
  const ports = [{ name: 'main', port, targetPort, protocol, nodePort: PORTS[protocol] }];
  return serviceObject(
    name,
    { type: 'NodePort', ...clusterIp(address), ports },
    { metadata: { name, namespace: 'default', labels: { app: name } } },
  );
}

function putServices(pods: readonly string[]): void {
  const address = { type: 'InternalIP', address: UPLINK };
  node.manifests.put('all.yaml', [
    nodeObject('n1', { status: { addresses: [address] } }),
    labelledService('web', CLUSTER_IP, 'TCP'),
    labelledService('dns', '10.96.0.53', 'UDP'),
    ...slicesOf(pods),
  ]);
}

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['one', 'two'], clients: ['client'] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  node = all.nodes[0]!;
  outside = await startClient(all.nodes[1]!.self);
  scrapes = new Scrapes(node.instance.sandbox);
  putServices(['one']);
  agent = await node.startAgent(['--metrics-top-services', '5']);
});
afterAll(async () => {
  for (const socket of opened) await socket.close().catch(() => undefined);
  all?.remove();
});

const fairlead = (...args: readonly string[]) => {
  const { runDir, bpfRoot } = node.instance;
  return runCommand(node.instance, [
    'connections',
    ...args,
    '--run-dir',
    runDir,
    '--bpf-root',
    bpfRoot,
  ]);
};
async function rows(...args: readonly string[]): Promise<readonly ConnectionRow[]> {
  const { stdout, stderr, code } = await fairlead('-o', 'json', ...args);
  expect(code, stderr).toBe(0);
  return (JSON.parse(stdout) as { items: readonly ConnectionRow[] }).items;
}
const nodePort = (protocol: 'TCP' | 'UDP') =>
  outside.open({ address: UPLINK, port: PORTS[protocol], protocol });
/** A backend as `address:port`. */
const at = (pod: string, port: number): string => `${node.pods(pod)[0]?.ipv4}:${port}`;

test('a connection from outside is listed with its Service, state and counters', async () => {
  const socket = await nodePort('TCP');
  opened.push(socket);
  await untilHolds(async () => expect((await socket.talk('hello')).kind).not.toBe('failed'));
  const [row, ...others] = await rows('web', '--origin', 'packet', '--client', OUTSIDE);
  expect(others).toEqual([]);
  const backend = at('one', 8080);
  expect(row).toMatchObject({
    ...{ namespace: 'default', name: 'web', port: 'main', protocol: 'TCP', origin: 'packet' },
    ...{ frontend: `${UPLINK}:${PORTS.TCP}`, backend, backendState: 'active' },
    state: 'established',
  });
  expect(row?.ageSeconds).toBeLessThan(60);
  expect(row?.toBackend?.packets).toBeGreaterThanOrEqual(3);
  expect(row?.toClient?.bytes).toBeGreaterThan(row?.toClient?.packets ?? 0);
});

test('a socket of a pod is listed by its cookie, and gone when it is closed', async () => {
  const socket = await node.client().open({ address: CLUSTER_IP, port: 80, protocol: 'TCP' });
  const [row, ...others] = await rows('--origin', 'socket', '-l', 'app=web');
  expect(others).toEqual([]);
  expect(row).toMatchObject({
    name: 'web',
    frontend: `${CLUSTER_IP}:80`,
    backend: at('one', 8080),
    state: 'open',
  });
  expect(row?.client).toMatch(/^sk:[0-9a-f]+$/);
  await socket.close();
  await untilHolds(async () => expect(await rows('--origin', 'socket')).toEqual([]));
});

test('packets and bytes of Services grow, also those of connections that have ended', async () => {
  await scrapes.take();
  const socket = await nodePort('TCP');
  for (let turn = 0; turn < 20; turn += 1) await socket.talk('hello');
  await socket.close();
  const web = 'namespace="default",service="web",port="main",protocol="TCP",ip_family="IPv4"';
  await untilHolds(async () => {
    await scrapes.take();
    for (const name of PACKET_METRICS) {
      for (const direction of ['to_backend', 'to_client']) {
        const value = await scrapes.value(`${name}{${web},direction="${direction}"}`);
        expect(value, `${name} ${direction}`).toBeGreaterThan(20);
      }
    }
  }, SWEPT_MS);
  expect(scrapes.unmoved(PACKET_METRICS)).toEqual([]);
});

test('without an agent the same is listed, but labels are not known', async () => {
  const before = await rows('web', '--client', OUTSIDE, '--state', 'established');
  await agent.kill();
  const after = await rows('web', '--client', OUTSIDE, '--state', 'established');
  expect(after.map(({ key }) => key)).toEqual(before.map(({ key }) => key));
  expect(await fairlead('-l', 'app=web')).toMatchObject({ code: 3 });
  agent = await node.startAgent(['--metrics-top-services', '5']);
});

test('--drop-stale: a UDP client whose backend is gone gets another one', async () => {
  const socket = await nodePort('UDP');
  opened.push(socket);
  for (let turn = 0; turn < 3; turn += 1) await socket.talk('hello');
  const find = async () => (await rows('dns', '--client', OUTSIDE))[0];
  expect(await find()).toMatchObject({ state: 'established', backend: at('one', 5353) });
  putServices(['two']);
  await untilHolds(async () => expect((await find())?.backendState).toBe('gone'));
  const stale = (await find())?.client;
  const line = `UDP ${stale} -> ${UPLINK}:${PORTS.UDP}, backend ${at('one', 5353)}`;
  expect((await fairlead('dns', '--drop-stale', '--dry-run')).stdout).toBe(
    `would drop ${line}\nwould drop 1 connection\n`,
  );
  expect((await fairlead('dns', '--drop-stale')).stdout).toBe(
    `dropped ${line}\ndropped 1 connection\n`,
  );
  expect(await find()).toBeUndefined();
  await untilHolds(async () => {
    await socket.talk('hello');
    expect(await find()).toMatchObject({ backend: at('two', 5353), backendState: 'active' });
  });
});

test('the packet layer is not loaded: a note, and an exit code of its own', async () => {
  await agent.stop();
  const { bpfRoot } = node.instance;
  const none = join(bpfRoot, 'none');
  const { code, stderr } = await runCommand(node.instance, ['connections', '--bpf-root', none]);
  expect([code, stderr]).toEqual([4, expect.stringContaining('no maps are pinned')]);
});
