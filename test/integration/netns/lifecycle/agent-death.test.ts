// SPDX-License-Identifier: Apache-2.0
// Stops, kills and restarts of the agent do not affect connections.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Agent, ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { RunningLoad } from '../../../../tools/lab/traffic.ts';
import { service, target } from '../../../support/builders.ts';
import { startOneNode } from '../../../support/node.ts';
import { AT_ONCE_MS, until } from '../../../support/until.ts';

const ROUNDS = 20;
const web = { n: 10 };
const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;

beforeAll(async () => {
  node = await startOneNode(['web-1', 'web-2', 'web-3']);
  node.manifests.put('web.yaml', service('web', web, node.servers));
  node.manifests.put('dns.yaml', service('dns', dns, node.servers));
  agent = await node.startAgent();
});
afterAll(() => node?.remove());

async function goOn(load: RunningLoad, connections: number): Promise<void> {
  const before = (await load.read()).connections;
  await until(async () => (await load.read()).connections > before + connections, {
    what: `${connections} more connections`,
  });
}

test(`killed and restarted ${ROUNDS} times under TCP and UDP traffic: no connection fails`, async () => {
  const options = { concurrency: 2, pauseMs: 5 };
  const tcp = await node.client().startLoad(target(web), options);
  const udp = await node.client().startLoad(target(dns), options);
  const held = await node.client().open(target(web));
  for (let round = 0; round < ROUNDS; round++) {
    await agent.kill();
    await goOn(tcp, 20);
    agent = await node.startAgent();
    await goOn(udp, 20);
    expect(await held.talk(`round ${round}`)).toMatchObject({ kind: 'answered' });
  }
  const [tcpReport, udpReport] = [await tcp.stop(), await udp.stop()];
  await held.close();
  expect(tcpReport.failures).toEqual([]);
  expect(udpReport.failures).toEqual([]);
  expect(Object.keys(tcpReport.hits).sort()).toEqual(['web-1', 'web-2', 'web-3']);
});

test('SIGTERM: exits with 0 at once, traffic continues, changes wait for the next agent', async () => {
  const load = await node.client().startLoad(target(web));
  const startedMs = performance.now();
  expect(await agent.stop()).toBe(0);
  expect(performance.now() - startedMs).toBeLessThan(AT_ONCE_MS);
  node.manifests.put('web.yaml', service('web', web, node.pods('web-1')));
  await goOn(load, 200);
  const alone = await load.read();
  expect(Object.keys(alone.hits).sort()).toEqual(['web-1', 'web-2', 'web-3']);
  agent = await node.startAgent();
  const { hits, failures } = await node.client().burst(target(web), { connections: 100 });
  expect({ hits, failures }).toEqual({ hits: { 'web-1': 100 }, failures: {} });
  expect((await load.stop()).failures).toEqual([]);
});

test('a second agent of the same instance fails without side effects', async () => {
  await expect(node.startAgent()).rejects.toThrow(/code 1/);
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  expect((await node.status()).pid).toBe(agent.child.pid);
});

test('cleanup fails while the agent runs; after cleanup nothing is translated', async () => {
  const busy = await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
  expect(busy.code).toBe(1);
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
  await agent.stop();
  const done = await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
  expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining('removed') });
  const after = await node.client().once(target(web));
  expect(after.kind).toBe('failed');
  agent = await node.startAgent();
  expect(await node.client().once(target(web))).toMatchObject({ kind: 'answered' });
});
