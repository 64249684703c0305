// SPDX-License-Identifier: Apache-2.0
// Maglev over packets, with real sockets of a client outside: connections go on after their node has lost every flow and its
// agent, and weights are shares.
import jstat from 'jstat';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ipBatch } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import type { Manifest } from '../../../../tools/lab/manifests.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import type { Pod } from '../../../../tools/lab/wiring.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import {
  BALANCER,
  balancerOf,
  nodeObject,
  PORTS,
  VIPS,
} from '../../../support/packets/direct-return.ts';
import { type HeldFlows, openFlows } from '../../../support/packets/held-flows.ts';
import { loseFlows } from '../../../support/packets/lost-flows.ts';

/** Of each family. */
const COUNT = { TCP: 60, UDP: 10 } as const;
const WEIGHTS = [1, 3] as const;
/** Of the third node, in the order of VIPS. */
const OUTSIDE = ['192.168.77.3', 'fd00:77::3'] as const;

let all: TestNodes;
let node: TestNode;
let servers: readonly Pod[];
let outside: Client;
let agent: Agent;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['light'], clients: [] },
    { name: 'n2', servers: ['heavy'], clients: [] },
    { name: 'outside', servers: [], clients: [] },
  ]);
  const machine = all.nodes[2]!;
  node = all.nodes[0]!;
  servers = all.nodes.flatMap((one) => one.servers);
  const routes = VIPS.map((vip, family) => `route add ${vip} via ${BALANCER[family]}`);
  await ipBatch(routes, machine.self.namespace);
  outside = await startClient(machine.self);
  const names = ['n1', 'n2'];
  node.manifests.put(
    'nodes.yaml',
    names.map((name, at) => nodeObject(name, at + 1, [])),
  );
  for (const transport of ['TCP', 'UDP'] as const) {
    node.manifests.put(`${transport}.yaml`, weightedBalancer(transport));
  }
  agent = await node.startAgent();
});
afterAll(async () => {
  await agent?.stop();
  all?.remove();
});

function weightedBalancer(transport: 'TCP' | 'UDP'): readonly Manifest[] {
  const endpoints = servers.map((pod) => ({ pod }));
  const [service, ...slices] = balancerOf(transport, { algorithm: 'maglev' }, endpoints);
  const weighted = slices.map((slice) => {
    const family = slice['addressType'] === 'IPv4' ? 'ipv4' : 'ipv6';
    const weights = servers.map((pod, at) => `${pod[family]}=${WEIGHTS[at]}`).join(', ');
    const annotations = { 'fairlead.io/weights': weights };
    return { ...slice, metadata: { ...(slice['metadata'] as object), annotations } };
  });
  return [service!, ...weighted];
}

const adopted = async (): Promise<number> => (await node.status()).reasons['ADOPTED'] ?? 0;

/** Every line came back, from the backend of the first one, which has seen the same client all the time. */
function expectIntact({ flows }: HeldFlows): void {
  const broken = flows.filter((flow) => flow.broken !== undefined || flow.lost > 0);
  expect(broken.map(({ client, broken: why, lost }) => ({ client, why, lost }))).toEqual([]);
  expect(flows.filter(({ seen }) => seen.size !== 1)).toEqual([]);
}

test('connections keep their backends when flows and agent are lost, whether the next agent is there or not', async () => {
  const held = await openFlows(outside, OUTSIDE, COUNT);
  const backends = new Set(held.flows.map(({ backend }) => backend));
  expect([...backends].sort()).toEqual(['heavy', 'light']);
  await held.round();
  const before = await adopted();
  await agent.kill();
  expect(loseFlows(node.instance.bpfRoot)).toBeGreaterThanOrEqual(held.flows.length);
  await held.round();
  expectIntact(held);
  expect(loseFlows(node.instance.bpfRoot)).toBeGreaterThanOrEqual(held.flows.length);
  agent = await node.startAgent();
  await held.round();
  await held.round();
  expectIntact(held);
  expect((await adopted()) - before).toBe(2 * 2 * COUNT.TCP);
  await held.close();
});

/** Of so many connections, those of one whose share is `p`: less or more come once in a billion runs. */
function expectShare(hits: number, connections: number, p: number): void {
  const chance = (most: number): number => jstat.binomial.cdf(most, connections, p);
  expect(chance(hits), `${hits} of ${connections}`).toBeGreaterThan(5e-10);
  expect(1 - chance(hits - 1), `${hits} of ${connections}`).toBeGreaterThan(5e-10);
}

test.each([
  ['IPv4', 0],
  ['IPv6', 1],
] as const)('weights 1:3 are the shares of connections, %s', async (_, family) => {
  const target = { protocol: 'TCP', address: VIPS[family], port: PORTS.TCP } as const;
  const { hits, failures } = await outside.burst(target, { connections: 600 });
  expect(failures).toEqual({});
  expectShare(hits['light'] ?? 0, 600, 1 / 4);
});
