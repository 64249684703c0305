// SPDX-License-Identifier: Apache-2.0
// Flows that netfilter translates, beside the running agent: of sockets that its hooks do not cover, or that are older
// than it. The rules stand for kube-proxy's. What is stale goes, and nothing else.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace, ipBatch } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { type Client, type OpenSocket, startClient } from '../../../../tools/lab/traffic.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import type { TrackedFlow } from '../../../support/conntrack.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';
import { terminating } from './changed-slices.ts';
import { startTableProcess, type TableProcess } from './table-process.ts';

const WEB = { n: 10, protocol: 'UDP', nodePort: 30080 } as const;
const VIP = '10.96.0.10';
const NODE_ADDRESS = '10.1.1.1';
const METRICS_PORT = 10249;
/** Of the next pass, after a pause of at least a second. */
const PASS_MS = 45_000;

let nodes: TestNodes;
let n1: TestNode;
let n2: TestNode;
let agent: Agent;
let table: TableProcess;
/** In the node's namespace, but not in its cgroup. */
let client: Client;
const sockets: OpenSocket[] = [];

const pod = (name: string) => (name === 'c' ? n2 : n1).pods(name)[0]!;
const put = (...names: readonly string[]): void => {
  n1.manifests.put('web.yaml', service('web', WEB, names.map(pod)));
};

async function iptables(...args: readonly string[]): Promise<void> {
  const argv = insideNamespace(n1.instance.sandbox.namespace, ['iptables', '-w', ...args]);
  const { code, stderr } = await run(argv[0] ?? '', argv.slice(1));
  if (code !== 0) throw new Error(stderr);
}

/** New flows to the ClusterIP go to this pod. */
async function translateTo(name: string): Promise<void> {
  const rule = ['-d', VIP, '-p', 'udp', '--dport', '80'];
  await iptables('-t', 'nat', '-F', 'OUTPUT');
  const destination = `${pod(name).ipv4}:8080`;
  await iptables(
    '-t',
    'nat',
    '-A',
    'OUTPUT',
    ...rule,
    '-j',
    'DNAT',
    '--to-destination',
    destination,
  );
}

async function openFlow(): Promise<OpenSocket> {
  const socket = await client.open({ ...target(WEB), isConnected: true });
  expect(socket.answer).toBeUndefined();
  sockets.push(socket);
  return socket;
}

const answeredBy = async (socket: OpenSocket, backend: string): Promise<void> =>
  untilHolds(
    async () => expect(await socket.talk('hello')).toMatchObject({ kind: 'answered', backend }),
    PASS_MS,
  );

/** Translated by a rule, before an agent looks. */
async function flowTo(backend: string): Promise<OpenSocket> {
  await translateTo(backend);
  const socket = await openFlow();
  await answeredBy(socket, backend);
  return socket;
}

/** The agent has read the table after everything that was put before. */
async function nextPass(): Promise<void> {
  const probe: TrackedFlow = {
    ...{ protocol: 'UDP', source: NODE_ADDRESS, sourcePort: 4711 },
    ...{
      destination: '10.96.0.200',
      destinationPort: 80,
      backend: '10.1.1.250',
      backendPort: 8080,
    },
  };
  await table.track(probe);
  const spec = { n: 200, protocol: 'UDP' } as const;
  n1.manifests.put('probe.yaml', service('probe', spec, [pod('a')]));
  const isGone = async () => !(await table.flows()).some((flow) => flow.includes('10.96.0.200'));
  await until(isGone, { what: 'a pass over the table', timeoutMs: PASS_MS });
  n1.manifests.remove('probe.yaml');
}

beforeAll(async () => {
  nodes = await startNodes([
    { name: 'n1', servers: ['a', 'b'], clients: [] },
    { name: 'n2', servers: ['c'], clients: [] },
  ]);
  [n1, n2] = nodes.nodes as [TestNode, TestNode];
  table = await startTableProcess(n1.instance.sandbox.namespace);
  client = await startClient(n1.instance.sandbox);
  // Rules of netfilter translate what has a route already: any node has a default route.
  const route = `route add 10.96.0.0/16 dev sink src ${NODE_ADDRESS}`;
  const lines = ['link add sink type bridge', 'link set sink up', route];
  await ipBatch(lines, n1.instance.sandbox.namespace);
});
afterEach(async () => {
  await Promise.all(sockets.splice(0).map((socket) => socket.close()));
  await agent?.stop();
});
afterAll(async () => {
  await table?.end();
  nodes?.remove();
});

const start = async (): Promise<void> => {
  agent = await n1.startAgent([`--metrics-bind-address=127.0.0.1:${METRICS_PORT}`]);
};

// First: flows of the others would be among the entries.
describe('entries', () => {
  const gone = '10.1.1.99';
  const flow = (over: Partial<TrackedFlow>): TrackedFlow => ({
    ...{ protocol: 'UDP', source: '198.51.100.7', sourcePort: 40000 },
    ...{ destination: VIP, destinationPort: 80, backend: gone, backendPort: 8080 },
    ...over,
  });

  test('that are stale go, all others stay; metrics and the log say how many', async () => {
    put('a');
    const sctp = { n: 11, protocol: 'SCTP' as 'UDP' };
    n1.manifests.put('sctp.yaml', service('sctp', sctp, [pod('a')]));
    const stale = [
      flow({ sourcePort: 1 }),
      flow({ sourcePort: 2, destination: NODE_ADDRESS, destinationPort: 30080 }),
      flow({ sourcePort: 3, destination: '10.96.0.11', protocol: 'SCTP' }),
      flow({
        sourcePort: 4,
        destination: 'fd00:96::a',
        source: 'fd00::7',
        backend: 'fd00:10:1::99',
      }),
    ];
    const others = [
      flow({ sourcePort: 11, backend: pod('a').ipv4 }),
      flow({ sourcePort: 12, protocol: 'TCP' }),
      flow({ sourcePort: 13, protocol: 'SCTP' }),
      flow({ sourcePort: 14, destinationPort: 81 }),
      flow({ sourcePort: 15, destination: '192.0.2.77', destinationPort: 30080 }),
      flow({ sourcePort: 16, destination: '203.0.113.9', destinationPort: 53 }),
      flow({ sourcePort: 17, destination: NODE_ADDRESS, destinationPort: 30080, protocol: 'TCP' }),
    ];
    await table.track(...others);
    const before = await table.flows();
    await table.track(...stale);
    await start();
    await until(async () => (await table.flows()).length === before.length, {
      what: 'the stale entries to go',
      timeoutMs: PASS_MS,
    });
    expect(await table.flows()).toEqual(before);
    await untilHolds(async () => expect(await table.flows('IPv6')).toEqual([]), PASS_MS);
    await untilHolds(async () => {
      const { body } = await getInSandbox(n1.instance.sandbox, METRICS_PORT, '/metrics');
      const name = 'kubeproxy_conntrack_reconciler';
      expect(body).toContain(`${name}_deleted_entries_total{ip_family="IPv4"} 3\n`);
      expect(body).toContain(`${name}_deleted_entries_total{ip_family="IPv6"} 1\n`);
      expect(body).toContain(`${name}_sync_duration_seconds_count{ip_family="IPv4"} 1\n`);
    });
    const line = await until(
      () => agent.log.find((text) => text.includes('stale conntrack entries deleted')),
      'the log line',
    );
    expect(JSON.parse(line)).toMatchObject({ level: 'info', family: 'IPv4', deleted: 3 });
    expect(agent.log.filter((text) => text.includes('cannot be deleted'))).toEqual([]);
  });
});

describe('a client that keeps its port', () => {
  test.each(['b', 'c'])('leaves a replaced endpoint for %s', async (next) => {
    put('a');
    const socket = await flowTo('a');
    await start();
    await translateTo(next);
    // The entry is what holds it.
    expect(await socket.talk('hello')).toMatchObject({ backend: 'a' });
    put(next);
    await answeredBy(socket, next);
  });

  test('is freed by the first look of an agent that starts after the change', async () => {
    put('b');
    const socket = await flowTo('a');
    await translateTo('b');
    expect(await socket.talk('hello')).toMatchObject({ backend: 'a' });
    await start();
    await answeredBy(socket, 'b');
  });

  test('leaves an endpoint that went before there was another', async () => {
    put('a');
    const socket = await flowTo('a');
    await start();
    await translateTo('b');
    put();
    await answeredBy(socket, 'b');
    put('b');
    await nextPass();
    expect(await socket.talk('hello')).toMatchObject({ backend: 'b' });
  });

  test('stays with an endpoint that terminates until it stops to serve', async () => {
    put('a');
    const socket = await flowTo('a');
    await start();
    await translateTo('b');
    const leaving = (isServing: boolean): void => {
      const leavingSlices = slices('web', [{ pod: pod('a') }], WEB).map((slice) =>
        terminating(slice, isServing),
      );
      n1.manifests.put('web.yaml', [svc('web', WEB), ...leavingSlices]);
    };
    leaving(true);
    await nextPass();
    expect(await socket.talk('hello')).toMatchObject({ backend: 'a' });
    leaving(false);
    await answeredBy(socket, 'b');
  });
});
