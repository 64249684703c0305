// SPDX-License-Identifier: Apache-2.0
// Ten backends become twenty, and ten again, with direct return and Maglev: no connection has a record when its table changes,
// and each keeps its backend, also if the agent starts again in between. The ten that come are on a node of their own: that of
// the first ten knows better than who sends to another one of them.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ipBatch } from '../../../../../src/sys/netns.ts';
import type { Agent } from '../../../../../tools/lab/agent.ts';
import type { Endpoint } from '../../../../../tools/lab/manifests.ts';
import { type Client, startClient } from '../../../../../tools/lab/traffic.ts';
import { startNodes, type TestNodes } from '../../../../support/node.ts';
import {
  BALANCER,
  balancerOf,
  nodeObject,
  VIPS,
} from '../../../../support/packets/direct-return.ts';
import { type HeldFlows, openFlows } from '../../../../support/packets/held-flows.ts';

/** Of each family, before the table changes and while there are twenty. */
const COUNT = { TCP: 120, UDP: 0 } as const;
/** Of the fourth node, in the order of VIPS. */
const OUTSIDE = ['192.168.77.4', 'fd00:77::4'] as const;
const NAMES = Array.from({ length: 20 }, (_, index) => `b${index + 1}`);

let all: TestNodes;
let outside: Client;
let agents: Agent[] = [];

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: [], clients: [] },
    { name: 'n2', servers: NAMES.slice(0, 10), clients: [] },
    { name: 'n3', servers: NAMES.slice(10), clients: [] },
    { name: 'outside', servers: [], clients: [] },
  ]);
  const machine = all.nodes[3]!.self;
  await ipBatch(
    VIPS.map((vip, family) => `route add ${vip} via ${BALANCER[family]}`),
    machine.namespace,
  );
  outside = await startClient(machine);
  for (const { manifests } of all.nodes.slice(0, 3)) {
    const names = ['n1', 'n2', 'n3'];
    manifests.put(
      'nodes.yaml',
      names.map((name, at) => nodeObject(name, at + 1, names)),
    );
  }
  await serve(10);
  agents = await Promise.all(all.nodes.slice(0, 3).map((node) => node.startAgent()));
  await programmed();
}, 120_000);
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.stop()));
  all?.remove();
});

async function programmed(): Promise<void> {
  await Promise.all(all.nodes.slice(0, 3).map((node) => node.programmed()));
}

/** The first ones; `leaving` ones serve what they have. */
async function serve(count: number, leaving = 0): Promise<void> {
  const pods = all.nodes.flatMap(({ servers }) => servers);
  const endpoints: readonly Endpoint[] = [
    ...pods.slice(0, count).map((pod) => ({ pod })),
    ...pods.slice(count, count + leaving).map((pod) => ({ pod, isTerminating: true })),
  ];
  const how = { algorithm: 'maglev', forwarding: 'dsr' };
  for (const { manifests } of all.nodes.slice(0, 3))
    manifests.put('TCP.yaml', balancerOf('TCP', how, endpoints));
}

const endedOf = ({ flows }: HeldFlows): readonly string[] =>
  flows.flatMap(({ client, broken }) => (broken === undefined ? [] : [`${client}: ${broken}`]));

test('10, 20, 10 backends: none of 480 connections ends', async () => {
  const first = await openFlows(outside, OUTSIDE, COUNT);
  expect(new Set(first.flows.map(({ backend }) => backend)).size).toBe(10);
  await serve(20);
  await programmed();
  const second = await openFlows(outside, OUTSIDE, COUNT);
  expect(new Set(second.flows.map(({ backend }) => backend)).size).toBe(20);
  await second.round();
  await agents[0]!.stop();
  agents[0] = await all.nodes[0]!.startAgent();
  await programmed();
  // The first ones have sent nothing since the table has changed.
  await first.round();
  await serve(10, 10);
  await programmed();
  await Promise.all([first.round(), second.round()]);
  expect([...endedOf(first), ...endedOf(second)]).toEqual([]);
  await first.close();
  await second.close();
}, 120_000);
