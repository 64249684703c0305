// SPDX-License-Identifier: Apache-2.0
// UDP flows and TCP connections through the rules of the iptables dataplane: an entry of conntrack holds each of them at
// its backend, until the agent deletes it.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ipBatch } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { type Client, type OpenSocket, startClient } from '../../../../tools/lab/traffic.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { renamed, terminating } from './changed-slices.ts';
import { startTableProcess, type TableProcess } from './table-process.ts';

const WEB = { n: 10, protocol: 'UDP', nodePort: 30080 } as const;
const STREAM = { n: 11 } as const;
const NODE_ADDRESS = '10.1.1.1';
const CLUSTER_IP = { ...target(WEB), isConnected: true };
const NODE_PORT = { ...CLUSTER_IP, address: NODE_ADDRESS, port: WEB.nodePort };
/** Of the next pass, after a pause of at least a second. */
const PASS_MS = 45_000;

let nodes: TestNodes;
let n1: TestNode;
let n2: TestNode;
let agent: Agent;
let table: TableProcess;
let host: Client;
const sockets: OpenSocket[] = [];

const pod = (name: string) => ('cd'.includes(name) ? n2 : n1).pods(name)[0]!;
const put = (...names: readonly string[]): void => {
  n1.manifests.put('web.yaml', service('web', WEB, names.map(pod)));
};

beforeAll(async () => {
  nodes = await startNodes([
    { name: 'n1', servers: ['a', 'b'], clients: ['client'] },
    { name: 'n2', servers: ['c', 'd'], clients: [] },
  ]);
  [n1, n2] = nodes.nodes as [TestNode, TestNode];
  const { sandbox } = n1.instance;
  table = await startTableProcess(sandbox.namespace);
  host = await startClient(sandbox);
  const route = `route add 10.96.0.0/16 dev sink src ${NODE_ADDRESS}`;
  await ipBatch(['link add sink type bridge', 'link set sink up', route], sandbox.namespace);
  // To the node, as any pod's: the lab has made it unreachable.
  await ipBatch(['route del unreachable 10.96.0.0/16'], n1.sandboxes[0]!.namespace);
  put('a');
  agent = await n1.startAgent(['--engine', 'iptables']);
});
afterEach(async () => {
  await Promise.all(sockets.splice(0).map((socket) => socket.close()));
});
afterAll(async () => {
  await agent?.stop();
  await table?.end();
  nodes?.remove();
});

/** A client that keeps its port. */
async function open(client: Client, to: typeof CLUSTER_IP): Promise<OpenSocket> {
  const socket = await client.open(to);
  sockets.push(socket);
  expect(socket.answer).toBeUndefined();
  return socket;
}

const answeredBy = (socket: OpenSocket, backend: string): Promise<void> =>
  untilHolds(
    async () => expect(await socket.talk('hello')).toMatchObject({ kind: 'answered', backend }),
    PASS_MS,
  );

// A pod's backends are on the other node: on its own, answers would pass no rules, as this bridge has no br_netfilter.
test.each([
  ['a pod', 'the ClusterIP', 'c', 'd'],
  ['a pod', 'the NodePort', 'a', 'c'],
  ['a process of the node', 'the ClusterIP', 'a', 'b'],
  ['a process of the node', 'the ClusterIP', 'a', 'c'],
  ['a process of the node', 'the NodePort', 'c', 'b'],
])('%s that keeps its port at %s leaves %s for %s', async (who, where, first, next) => {
  put(first);
  const to = where === 'the NodePort' ? NODE_PORT : CLUSTER_IP;
  const socket = await open(who === 'a pod' ? n1.client() : host, to);
  await answeredBy(socket, first);
  put(next);
  await answeredBy(socket, next);
});

test('a flow stays with an endpoint that terminates until it stops to serve', async () => {
  put('c');
  const socket = await open(n1.client(), CLUSTER_IP);
  await answeredBy(socket, 'c');
  const leaving = (isServing: boolean): void => {
    const [c, d] = ['c', 'd'].map((name) => slices('web', [{ pod: pod(name) }], WEB));
    const gone = (c ?? []).map((slice) => terminating(slice, isServing));
    const next = (d ?? []).map((slice) => renamed(slice, '-d'));
    n1.manifests.put('web.yaml', [svc('web', WEB), ...gone, ...next]);
  };
  leaving(true);
  // New flows go elsewhere: the change is programmed.
  await untilHolds(
    async () => expect(await host.once(target(WEB))).toMatchObject({ backend: 'd' }),
    PASS_MS,
  );
  expect(await socket.talk('hello')).toMatchObject({ backend: 'c' });
  leaving(false);
  await answeredBy(socket, 'd');
});

test('a flow leaves an endpoint that went before there was another', async () => {
  put('c');
  const socket = await open(n1.client(), CLUSTER_IP);
  await answeredBy(socket, 'c');
  put();
  await untilHolds(
    async () => expect(await n1.client().once(target(WEB))).not.toMatchObject({ kind: 'answered' }),
    PASS_MS,
  );
  put('d');
  await answeredBy(socket, 'd');
});

test('a stream and its entry stay when their endpoint is removed', async () => {
  n1.manifests.put('stream.yaml', service('stream', STREAM, [pod('c')]));
  await untilHolds(
    async () => expect(await n1.client().once(target(STREAM))).toMatchObject({ backend: 'c' }),
    PASS_MS,
  );
  const stream = await n1.client().open(target(STREAM));
  sockets.push(stream);
  n1.manifests.put('stream.yaml', service('stream', STREAM, [pod('d')]));
  // The table has been read since: a flow of another Service has moved.
  put('a');
  const socket = await open(host, CLUSTER_IP);
  await answeredBy(socket, 'a');
  put('b');
  await answeredBy(socket, 'b');
  expect(await stream.talk('hello')).toMatchObject({ kind: 'answered', backend: 'c' });
  const entry = `tcp 10.96.0.11:80 <- ${pod('c').ipv4}:8080`;
  expect((await table.flows()).includes(entry)).toBe(true);
});

test('a Service that is deleted while no agent runs leaves no entries', async () => {
  const gone = { n: 12, protocol: 'UDP', nodePort: 30090 } as const;
  n1.manifests.put('gone.yaml', service('gone', gone, [pod('a')]));
  const nodePort = { ...target(gone), isConnected: true, address: NODE_ADDRESS, port: 30_090 };
  await untilHolds(
    async () => expect(await host.once(target(gone))).toMatchObject({ backend: 'a' }),
    PASS_MS,
  );
  expect(await host.once(nodePort)).toMatchObject({ backend: 'a' });
  const entries = ['udp 10.96.0.12:80', `udp ${NODE_ADDRESS}:30090`].map(
    (to) => `${to} <- ${pod('a').ipv4}:8080`,
  );
  expect(await table.flows()).toEqual(expect.arrayContaining(entries));
  await agent.stop();
  n1.manifests.remove('gone.yaml');
  agent = await n1.startAgent(['--engine', 'iptables']);
  await untilHolds(async () => {
    const flows = await table.flows();
    expect(entries.filter((entry) => flows.includes(entry))).toEqual([]);
  }, PASS_MS);
});
