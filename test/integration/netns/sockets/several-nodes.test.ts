// SPDX-License-Identifier: Apache-2.0
// Two instances on one machine: two network namespaces, two cgroups, the same ClusterIP, different pods. They are
// independent of each other.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

const web = { n: 10 };
const far = { n: 11 };
let cluster: TestNodes;
let left: TestNode;
let right: TestNode;
let leftAgent: Agent;

beforeAll(async () => {
  cluster = await startNodes([
    { name: 'n1', servers: ['left-1', 'left-2'], clients: ['client-1'] },
    { name: 'n2', servers: ['right-1', 'right-2'], clients: ['client-2'] },
  ]);
  [left, right] = [cluster.nodes[0]!, cluster.nodes[1]!];
  left.manifests.put('web.yaml', service('web', web, left.servers));
  right.manifests.put('web.yaml', service('web', web, right.servers));
  left.manifests.put('far.yaml', service('far', far, right.servers));
  [leftAgent] = await Promise.all([left.startAgent(), right.startAgent()]);
});
afterAll(() => cluster?.remove());

async function hitsOf(node: TestNode): Promise<string[]> {
  const { hits, failures } = await node.client().burst(target(web), { connections: 60 });
  expect(failures).toEqual({});
  return Object.keys(hits).sort();
}

test("the same ClusterIP leads to the pods of each instance's own manifests", async () => {
  expect(await hitsOf(left)).toEqual(['left-1', 'left-2']);
  expect(await hitsOf(right)).toEqual(['right-1', 'right-2']);
});

test('a Service of one instance does not exist on the other', async () => {
  expect(await left.client().once(target(far))).toMatchObject({ kind: 'answered' });
  expect((await right.client().once(target(far), 1_000)).kind).toBe('failed');
});

test('backends on another node answer, over IPv4 and IPv6', async () => {
  for (const kind of ['IPv4', 'IPv6', 'v4-mapped'] as const) {
    const { hits } = await left.client().burst(target(far, kind), { connections: 60 });
    expect(Object.keys(hits).sort()).toEqual(['right-1', 'right-2']);
  }
});

test('changes, a crash and the removal of one instance do not affect the other', async () => {
  const load = await right.client().startLoad(target(web));
  left.manifests.put('web.yaml', [svc('web', web), ...slices('web', [])]);
  await until(async () => (await left.client().once(target(web))).kind === 'failed', {
    what: 'the left Service without endpoints',
  });
  await leftAgent.kill();
  await left.startAgent().then((agent) => agent.stop());
  const cleanup = await runCommand(left.instance, ['cleanup', ...ownPaths(left.instance)]);
  expect(cleanup.code).toBe(0);
  const before = (await load.read()).connections;
  await until(async () => (await load.read()).connections > before + 100, { what: 'more use' });
  const report = await load.stop();
  expect(report.failures).toEqual([]);
  expect(Object.keys(report.hits).sort()).toEqual(['right-1', 'right-2']);
});
