// SPDX-License-Identifier: Apache-2.0
// `explain` of a running agent against real sockets, with and without programs on devices: its answer is what a socket
// gets, and if no dataplane serves the packet, `explain`, `services` and `status` say so.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Answer } from '../../../../src/observe/answer.ts';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { type Manifest, nodeManifest } from '../../../../tools/lab/manifests.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import type { Pod } from '../../../../tools/lab/wiring.ts';
import { clusterIps, slices } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { clusterIp, serviceObject } from '../../../support/objects.ts';
import { untilHolds } from '../../../support/until.ts';

let cluster: TestNodes;
let node: TestNode;
let outside: Client;
let host: Client;
/** The client pod. */
let pod: Pod;
const NODE_PORT = 30080;
const BALANCER = '203.0.113.10';
const RANGED = '203.0.113.11';

const nodeIp = (): string => cluster.topology.nodes[0]!.ipv4;
const outsideIp = (): string => cluster.topology.nodes[1]!.ipv4;

beforeAll(async () => {
  cluster = await startNodes([
    { name: 'n1', servers: ['near'], clients: ['client'] },
    { name: 'n2', servers: ['far'], clients: [] },
  ]);
  const [here, there] = cluster.nodes;
  node = here!;
  pod = cluster.topology.nodes[0]!.pods.find(({ name }) => name === 'client')!;
  [host, outside] = [await startClient(node.self), await startClient(there!.self)];
  node.manifests.put('node.yaml', [nodeManifest(cluster.topology.nodes[0]!)]);
  const [far] = there!.pods('far');
  node.manifests.put('web.yaml', balancer('web', 10, { far: far! }, BALANCER));
  node.manifests.put('ranged.yaml', balancer('ranged', 11, { far: far! }, RANGED));
  node.manifests.put('sctp.yaml', sctp(far!));
});
afterAll(() => cluster?.remove());

/** Policy Local, with its only endpoint on the other node. */
function balancer(name: string, n: number, { far }: { far: Pod }, ip: string): Manifest[] {
  const isRanged = ip === RANGED;
  const port = { name: 'main', port: 80, targetPort: 8080, protocol: 'TCP' };
  const spec = {
    type: 'LoadBalancer',
    ...clusterIp(clusterIps(n).ipv4),
    externalTrafficPolicy: 'Local',
    ports: [isRanged ? port : { ...port, nodePort: NODE_PORT }],
    ...(isRanged && { loadBalancerSourceRanges: ['192.0.2.0/24'] }),
  };
  const status = { loadBalancer: { ingress: [{ ip }] } };
  return [serviceObject(name, spec, { status }), ...slices(name, [{ pod: far }])];
}

function sctp(far: Pod): Manifest[] {
  const ports = [{ name: 'main', port: 80, targetPort: 8080, protocol: 'SCTP' }];
  const made = slices('sctp', [{ pod: far }]).map((slice) => ({
    ...slice,
    ports: [{ ...ports[0], port: 8080 }],
  }));
  return [serviceObject('sctp', { ...clusterIp(clusterIps(12).ipv4), ports }), ...made];
}

async function explained(from: string, to: string): Promise<Answer> {
  const args = ['explain', '--run-dir', node.instance.runDir, '--from', from, '--to', to];
  const { stdout, stderr, code } = await runCommand(node.instance, [...args, '-o', 'json']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Answer;
}

/** Names of the pods that answered, or the ways the connections failed: `TIMEOUT` is the client's own. */
async function reached(client: Client, target: Target): Promise<readonly string[]> {
  const { hits, failures } = await client.burst(target, { connections: 20, timeoutMs: 1_000 });
  const codes = Object.keys(failures).map((code) => (code === 'TIMEOUT' ? 'ETIMEDOUT' : code));
  return [...Object.keys(hits), ...codes].sort();
}

/** What sockets must get for an answer; undefined: no dataplane translates, so no backend may be reached. */
function promised({ dataplane, verdict, backends }: Answer): readonly string[] | undefined {
  if (dataplane === null) return undefined;
  if (verdict === 'forward') return backends.map(nameOf).sort();
  return [verdict === 'reject' ? 'ECONNREFUSED' : 'ETIMEDOUT'];
}

function nameOf(backend: string): string {
  const pods = cluster.nodes.flatMap(({ servers }) => servers);
  return pods.find(({ ipv4 }) => backend.startsWith(`${ipv4}:`))?.name ?? backend;
}

type Expected = Partial<Answer>;

interface Row {
  readonly name: string;
  readonly client: () => readonly [Client, address: string];
  readonly to: () => readonly [address: string, port: number];
  readonly answer: Expected;
  /** With --devices none, if that is different. */
  readonly withoutPackets?: Expected;
}

const fromPod = () => [node.client(), pod.ipv4] as const;
const fromHost = () => [host, nodeIp()] as const;
const fromOutside = () => [outside, outsideIp()] as const;
const OUTSIDE = 'not served by bpf: packets from outside';

const ROWS: readonly Row[] = [
  {
    name: 'pod -> ClusterIP',
    client: fromPod,
    to: () => [clusterIps(10).ipv4, 80],
    answer: { verdict: 'forward', dataplane: 'bpf', source: 'client' },
  },
  {
    name: 'pod -> another port of a ClusterIP',
    client: fromPod,
    to: () => [clusterIps(10).ipv4, 81],
    answer: { verdict: 'reject', dataplane: 'bpf' },
  },
  {
    name: 'pod -> NodePort with policy Local: the policy does not apply',
    client: fromPod,
    to: () => [nodeIp(), NODE_PORT],
    answer: { verdict: 'forward', dataplane: 'bpf', source: 'client' },
  },
  {
    name: 'host -> NodePort on loopback',
    client: fromHost,
    to: () => ['127.0.0.1', NODE_PORT],
    answer: { verdict: 'forward', dataplane: 'bpf' },
  },
  {
    name: 'pod -> NodePort on loopback: the pod’s own loopback',
    client: fromPod,
    to: () => ['127.0.0.1', NODE_PORT],
    answer: { verdict: 'none', dataplane: null, limits: [] },
  },
  {
    name: 'outside -> NodePort',
    client: fromOutside,
    to: () => [nodeIp(), NODE_PORT],
    answer: { verdict: 'drop', dataplane: 'bpf', limits: [] },
    withoutPackets: { verdict: 'drop', dataplane: null, limits: [OUTSIDE] },
  },
  {
    name: 'pod -> load balancer with source ranges',
    client: fromPod,
    to: () => [RANGED, 80],
    answer: { verdict: 'drop', dataplane: 'bpf', limits: [] },
    withoutPackets: {
      verdict: 'drop',
      dataplane: null,
      limits: ['not served by bpf: source ranges'],
    },
  },
  {
    name: 'pod -> load balancer with policy Local',
    client: fromPod,
    to: () => [BALANCER, 80],
    answer: { verdict: 'forward', dataplane: 'bpf' },
  },
];

/** Where a node with these flags differs from what the rows say. */
const MODES = [
  {
    devices: 'auto',
    sctp: [
      'not served by bpf: SCTP to backends with another port',
      'not served by bpf: SCTP from processes of this node',
    ],
    outside: 'drop: the client gets no response',
  },
  {
    devices: 'none',
    sctp: ['not served by bpf: SCTP'],
    outside: `decided: drop: the client gets no response; ${OUTSIDE}`,
  },
] as const;

describe.each(MODES)('--devices $devices', ({ devices, sctp: limits, outside: outsideText }) => {
  let agent: Agent;
  beforeAll(async () => {
    const cidrs = ['--cluster-cidr', '10.1.1.0/24,fd00:10:1::/64'];
    agent = await node.startAgent([...cidrs, '--devices', devices]);
  });
  afterAll(() => agent?.stop());

  test.each(ROWS)('$name', async ({ client, to, answer, withoutPackets }) => {
    const [[sender, from], [address, port]] = [client(), to()];
    const said = await explained(from, `${address}:${port}/tcp`);
    expect(said).toMatchObject(devices === 'none' ? (withoutPackets ?? answer) : answer);
    const target = { address, port, protocol: 'TCP' } as const;
    await untilHolds(async () => {
      const seen = await reached(sender, target);
      const expected = promised(said);
      if (expected !== undefined) expect(seen).toEqual(expected);
      else expect(seen.filter((name) => ['near', 'far'].includes(name))).toEqual([]);
    });
  });

  test('pod -> SCTP to another port: every command says that it is not served', async () => {
    const said = await explained(pod.ipv4, `${clusterIps(12).ipv4}:80/sctp`);
    expect(said).toMatchObject({ verdict: 'forward', dataplane: null, limits: [limits[0]] });
    const isRefused = said.steps.at(-1)?.reason.includes('; bpf refuses it') ?? false;
    expect(isRefused).toBe(devices === 'auto');
    const paths = ownPaths(node.instance);
    const services = await runCommand(node.instance, ['services', 'sctp', '-o', 'json', ...paths]);
    const { items } = JSON.parse(services.stdout) as { items: readonly ServiceRow[] };
    expect(items.map(({ kernelState }) => kernelState)).toEqual(['not-served']);
    expect(items[0]).toMatchObject({ servedBy: [], kernel: [], limits });
    const status = await runCommand(node.instance, ['status', ...paths.slice(2)]);
    for (const limit of limits) {
      expect(status.stdout).toMatch(new RegExp(`^Limit: +${limit}: default/sctp$`, 'm'));
    }
    expect(status.code).toBe(3);
  });

  test('the table output shows the decision and what is not served', async () => {
    const to = `${nodeIp()}:${NODE_PORT}`;
    const args = ['explain', '--run-dir', node.instance.runDir, '--from', outsideIp(), '--to', to];
    const { stdout } = await runCommand(node.instance, args);
    expect(stdout.split('\n')[0]).toBe(`${outsideIp()} -> ${to}/TCP: ${outsideText}`);
  });
});
