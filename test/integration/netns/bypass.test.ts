// SPDX-License-Identifier: Apache-2.0
// Cgroups that opted out: their sockets see the Service address itself, all others are served.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Agent, runCommand } from '../../../src/lab/agent.ts';
import { startClient } from '../../../src/lab/traffic.ts';
import { makeCgroup } from '../../../src/sys/cgroup.ts';
import { service, target } from '../../support/builders.ts';
import { startOneNode } from '../../support/node.ts';

const web = { n: 10 };
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2'], ['client-1', 'client-2']);
  node.manifests.put('web.yaml', service('web', web, node.servers));
  node.manifests.put('dns.yaml', service('dns', dns, node.servers));
  agent = await node.startAgent();
});
afterAll(() => node?.remove());

const bypass = (...args: string[]) =>
  runCommand(node.instance, ['bypass', ...args, '--bpf-root', node.instance.bpfRoot]);

async function isServed(index: number): Promise<boolean> {
  const answers = [
    await node.client(index).once(target(web, 'IPv4'), 500),
    await node.client(index).once(target(web, 'IPv6'), 500),
    await node.client(index).once(target(dns), 500),
  ];
  const kinds = new Set(answers.map(({ kind }) => kind));
  expect(kinds.size).toBe(1);
  return kinds.has('answered');
}

test('a bypassed pod is left alone, its neighbour is not, and it can come back', async () => {
  const { cgroup } = node.places[0]!;
  expect([await isServed(0), await isServed(1)]).toEqual([true, true]);
  expect(await bypass('add', cgroup)).toMatchObject({ code: 0 });
  expect([await isServed(0), await isServed(1)]).toEqual([false, true]);
  const listed = await bypass('list');
  expect(listed.stdout.trim()).toMatch(/^\d+$/);
  expect(await bypass('remove', cgroup)).toMatchObject({ code: 0 });
  expect([await isServed(0), await isServed(1)]).toEqual([true, true]);
  expect((await bypass('list')).stdout.trim()).toBe('none');
});

test('it counts for cgroups below, and outlives the agent', async () => {
  const place = node.places[1]!;
  const below = { ...place, cgroup: `${place.cgroup}/container` };
  makeCgroup(below.cgroup);
  const client = await startClient(below);
  expect(await client.once(target(web))).toMatchObject({ kind: 'answered' });
  await bypass('add', place.cgroup);
  expect((await client.once(target(web), 500)).kind).toBe('failed');
  await agent.kill();
  expect((await client.once(target(web), 500)).kind).toBe('failed');
  agent = await node.startAgent();
  expect((await client.once(target(web), 500)).kind).toBe('failed');
  expect(await isServed(0)).toBe(true);
  await bypass('remove', place.cgroup);
  expect(await client.once(target(web))).toMatchObject({ kind: 'answered' });
});

test('an open connection of a pod that opts out goes on', async () => {
  const socket = await node.client().open(target(web));
  await bypass('add', node.places[0]!.cgroup);
  expect(await socket.talk('still here')).toMatchObject({ text: 'still here' });
  await bypass('remove', node.places[0]!.cgroup);
  await socket.close();
});

test('what is no cgroup, and what is not bypassed, is said plainly', async () => {
  expect(await bypass('add', node.instance.runDir)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('not a directory of a cgroup v2'),
  });
  expect(await bypass('remove', node.places[0]!.cgroup)).toMatchObject({ code: 4 });
});
