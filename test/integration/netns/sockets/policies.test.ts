// SPDX-License-Identifier: Apache-2.0
// The plan as sockets see it: which set a client on this node gets, what an empty set does, and which addresses are
// frontends. The client is a pod or a program on the node itself.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Answer, Target } from '../../../../tools/lab/client/protocol.ts';
import type { Manifest } from '../../../../tools/lab/manifests.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import type { Pod } from '../../../../tools/lab/wiring.ts';
import { slices } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { clusterIp, nodeObject, serviceObject } from '../../../support/objects.ts';
import { untilHolds } from '../../../support/until.ts';

let node: Awaited<ReturnType<typeof startOneNode>>;
let host: Client;
let pod: Client;
const NODE_IP = '10.1.1.1';
/** After which a connection that nobody answers has been dropped: what is answered is answered sooner. */
const SILENCE_MS = 1_000;

beforeAll(async () => {
  node = await startOneNode(['near', 'far', 'gone']);
  [host, pod] = [await startClient(node.self), node.client()];
  node.manifests.put('node.yaml', [
    nodeObject('n1', { status: { addresses: [{ type: 'InternalIP', address: NODE_IP }] } }),
  ]);
  await node.startAgent(['--cluster-cidr', '10.1.0.0/16,fd00:10::/32']);
});
afterAll(() => node?.remove());

interface Shape {
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly protocol?: 'TCP' | 'UDP';
  readonly ports?: Readonly<Record<string, unknown>>;
  /** Endpoints: on this node unless said otherwise. */
  readonly endpoints: readonly {
    readonly pod: Pod;
    readonly nodeName?: string;
    readonly conditions?: object;
  }[];
}

function put(shape: Shape): void {
  const { protocol = 'TCP' } = shape;
  const targetPort = protocol === 'TCP' ? 8080 : 5353;
  const web = serviceObject(
    'web',
    {
      type: 'ClusterIP',
      ...clusterIp('10.96.0.10', 'fd00:96::10'),
      ports: [{ name: 'main', port: 80, targetPort, protocol, ...shape.ports }],
      ...shape.spec,
    },
    shape.status && { status: shape.status },
  );
  const placed = slices('web', shape.endpoints, { targetPort, protocol }).map((slice) => ({
    ...slice,
    endpoints: (slice['endpoints'] as object[]).map((endpoint, index) => ({
      ...endpoint,
      nodeName: shape.endpoints[index]?.nodeName ?? 'n1',
      ...(shape.endpoints[index]?.conditions && { conditions: shape.endpoints[index]?.conditions }),
    })),
  }));
  node.manifests.put('web.yaml', [web, ...placed]);
}

const at = (address: string, port = 80, protocol: 'TCP' | 'UDP' = 'TCP'): Target => ({
  address,
  port,
  protocol,
});
const CLUSTER_IP = at('10.96.0.10');
const on = (name: string, nodeName = 'n1') => ({ pod: node.pods(name)[0]!, nodeName });
const reasonOf = (answer: Answer): string =>
  answer.kind === 'failed' ? answer.code : answer.backend;

/** All backends reached by many connections, or their errors. */
async function reached(client: Client, target: Target): Promise<string[]> {
  const { hits, failures } = await client.burst(target, { connections: 60 });
  return [...Object.keys(hits), ...Object.keys(failures)].sort();
}

test('ITP Local: only endpoints of this node; without any, connections are dropped, not rejected', async () => {
  put({ spec: { internalTrafficPolicy: 'Local' }, endpoints: [on('near'), on('far', 'n2')] });
  await untilHolds(async () => expect(await reached(pod, CLUSTER_IP)).toEqual(['near']));
  put({ spec: { internalTrafficPolicy: 'Local' }, endpoints: [on('far', 'n2')] });
  for (const client of [pod, host])
    await untilHolds(async () => expect(await reached(client, CLUSTER_IP)).toEqual(['ETIMEDOUT']));
  put({ spec: { internalTrafficPolicy: 'Cluster' }, endpoints: [on('far', 'n2')] });
  await untilHolds(async () => expect(await reached(pod, CLUSTER_IP)).toEqual(['far']));
});

test('ITP Local over UDP: a dropped datagram fails with EPERM, as behind a firewall', async () => {
  put({ protocol: 'UDP', spec: { internalTrafficPolicy: 'Local' }, endpoints: [on('far', 'n2')] });
  const target = at('10.96.0.10', 80, 'UDP');
  await untilHolds(async () => expect(reasonOf(await pod.once(target))).toBe('EPERM'));
});

test('serving terminating endpoints are used if there are no others; without serving ones connections are rejected', async () => {
  const conditions = { ready: false, serving: true, terminating: true };
  put({ endpoints: [{ ...on('near'), conditions }] });
  await untilHolds(async () => expect(await reached(pod, CLUSTER_IP)).toEqual(['near']));
  put({ endpoints: [{ ...on('near'), conditions: { ...conditions, terminating: false } }] });
  await untilHolds(async () => expect(await reached(pod, CLUSTER_IP)).toEqual(['ECONNREFUSED']));
});

test('other ports and protocols of a ClusterIP are rejected; other addresses are left alone', async () => {
  put({ endpoints: [on('near')] });
  await untilHolds(async () => expect(await reached(pod, CLUSTER_IP)).toEqual(['near']));
  for (const address of ['10.96.0.10', 'fd00:96::10', '::ffff:10.96.0.10']) {
    expect(reasonOf(await pod.once(at(address, 81)))).toBe('ECONNREFUSED');
    expect(reasonOf(await pod.once(at(address, 80, 'UDP')))).toBe('ECONNREFUSED');
  }
  const [near] = node.pods('near');
  expect(await reached(pod, at(near!.ipv4, 8080))).toEqual(['near']);
  expect(reasonOf(await pod.once(at('10.96.0.11', 81)))).toBe('EHOSTUNREACH');
});

test('external addresses use the cluster-wide set for clients on this node, even with ETP Local', async () => {
  put({
    spec: { type: 'LoadBalancer', externalTrafficPolicy: 'Local', externalIPs: ['198.51.100.7'] },
    status: {
      loadBalancer: { ingress: [{ ip: '203.0.113.10' }, { ip: '203.0.113.11', ipMode: 'Proxy' }] },
    },
    ports: { nodePort: 30080 },
    endpoints: [on('far', 'n2')],
  });
  await node.programmed();
  for (const address of ['203.0.113.10', '198.51.100.7']) {
    expect(await reached(pod, at(address))).toEqual(['far']);
    expect(await reached(host, at(address))).toEqual(['far']);
  }
  expect((await pod.once(at('203.0.113.11'), SILENCE_MS)).kind).toBe('failed');
  expect(await reached(pod, at(NODE_IP, 30080))).toEqual(['far']);
});

test('a NodePort answers on every address of the node, and on loopback only for the node itself', async () => {
  put({
    spec: { type: 'NodePort' },
    ports: { nodePort: 30080 },
    endpoints: [on('near'), on('far', 'n2')],
  });
  await node.programmed();
  expect(await reached(pod, at(NODE_IP, 30080))).toEqual(['far', 'near']);
  expect(await reached(pod, at('fd00:10:1::1', 30080))).toEqual(['far', 'near']);
  expect(await reached(host, at('127.0.0.1', 30080))).toEqual(['far', 'near']);
  expect(await reached(host, at('127.9.9.9', 30080))).toEqual(['far', 'near']);
  expect(await reached(pod, at('127.0.0.1', 30080))).toEqual(['ECONNREFUSED']);
  expect(await reached(host, at('::1', 30080))).toEqual(['ECONNREFUSED']);
  put({ endpoints: [on('near')] });
  await untilHolds(async () =>
    expect(await reached(pod, at(NODE_IP, 30080))).toEqual(['ECONNREFUSED']),
  );
});

test('hints for this node and its zone narrow the set', async () => {
  put({ endpoints: [on('near'), on('far', 'n2')] });
  await untilHolds(async () => expect(await reached(pod, CLUSTER_IP)).toEqual(['far', 'near']));
  const hinted = slices('web', [on('near'), on('far')]).map((slice): Manifest => {
    const endpoints = (slice['endpoints'] as object[]).map((endpoint, index) => ({
      ...endpoint,
      hints: { forNodes: [{ name: index === 0 ? 'n1' : 'n2' }] },
    }));
    const name = `hinted-${String(slice['addressType'])}`.toLowerCase();
    return { ...slice, metadata: { ...(slice['metadata'] as object), name }, endpoints };
  });
  put({ endpoints: [] });
  node.manifests.put('hinted.yaml', hinted);
  await untilHolds(async () => expect(await reached(pod, CLUSTER_IP)).toEqual(['near']));
  node.manifests.remove('hinted.yaml');
});

test.each([
  ['192.0.2.0/24', { pod: [], host: [] }],
  ['10.1.0.0/16', { pod: ['near'], host: ['near'] }],
  [`${NODE_IP}/32`, { pod: [], host: ['near'] }],
])(
  'source ranges %s: who reaches the load balancer address; all reach the ClusterIP',
  async (range, expected) => {
    put({
      spec: { type: 'LoadBalancer', loadBalancerSourceRanges: [range] },
      status: { loadBalancer: { ingress: [{ ip: '203.0.113.10' }] } },
      endpoints: [on('near')],
    });
    const balancer = async (client: Client): Promise<readonly string[]> => {
      const { hits } = await client.burst(at('203.0.113.10'), {
        connections: 3,
        timeoutMs: SILENCE_MS,
      });
      return Object.keys(hits);
    };
    await node.programmed();
    await untilHolds(async () => {
      const seen = { pod: await balancer(pod), host: await balancer(host) };
      expect(seen).toEqual(expected);
    });
    for (const client of [pod, host]) expect(await reached(client, CLUSTER_IP)).toEqual(['near']);
  },
);

test('all frontends of a service port share session affinity', async () => {
  put({
    spec: {
      type: 'NodePort',
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
    },
    // No other test's, so that an answer there tells that this Service is programmed.
    ports: { nodePort: 30089 },
    endpoints: [on('near'), on('far', 'n2'), on('gone', 'n3')],
  });
  await untilHolds(async () => {
    const sticky = await reached(pod, at(NODE_IP, 30089));
    expect(sticky).toHaveLength(1);
    expect(sticky).not.toEqual(['ECONNREFUSED']);
    expect(await reached(pod, CLUSTER_IP)).toEqual(sticky);
  });
});
