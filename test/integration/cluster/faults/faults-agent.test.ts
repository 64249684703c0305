// SPDX-License-Identifier: Apache-2.0
// Faults of the control plane and of the agent under traffic: no request may fail, and changes are programmed
// again afterwards.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { start, stop } from '../../../../src/sys/exec.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import type { RunningLoad } from '../../../../tools/lab/traffic.ts';
import { startOneNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import type { Api } from '../objects/api.ts';
import { addNode, addService, servicesPath } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { addWeb, NODE } from './fault-stage.ts';

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('faults under traffic', () => {
  let plane: ControlPlane;
  let node: Awaited<ReturnType<typeof startOneNode>>;
  let agent: ClusterAgent;
  let load: RunningLoad;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    plane = await startControlPlane(readiness.binaries);
    node = await startOneNode(['web-1', 'web-2']);
    await plane.connect({ namespace: node.instance.sandbox.namespace, index: 1 });
    await addNode(plane.api, NODE);
    await addWeb(plane, node);
    agent = await startAgent();
    const backends = async () => (await kernel('web')).flatMap(({ kernel }) => kernel);
    await untilHolds(async () => expect(await backends()).toHaveLength(2), 60_000);
  });
  afterAll(async () => {
    await agent?.stop();
    node?.remove();
    await plane?.remove();
  });
  beforeEach(async () => {
    const service = await plane.api.get<{ spec: { clusterIP: string } }>(`${servicesPath()}/web`);
    const { clusterIP: address } = service.spec;
    load = await node.client().startLoad({ protocol: 'TCP', address, port: 80 });
  });
  afterEach(async () => {
    await untilHolds(async () => expect((await load.read()).connections).toBeGreaterThan(50));
    expect((await load.stop()).failures).toEqual([]);
  });

  const startAgent = (flags: readonly string[] = []): Promise<ClusterAgent> =>
    startClusterAgent(plane, node, { identity: 'proxy', flags });
  const status = async () => (await node.status()).source.cluster!;
  /** The output of `fairlead services -o json` without the traffic counters. */
  async function services() {
    const args = ['services', '-o', 'json', ...ownPaths(node.instance)];
    const { stdout } = await runCommand(node.instance, args);
    const { items } = JSON.parse(stdout) as { items: readonly ServiceRow[] };
    const none = { connections: 0, refused: 0, dropped: 0, affinityHits: 0 };
    return items.map((row) => ({ ...row, ...none }));
  }
  const kernel = async (name: string) => (await services()).filter((row) => row.name === name);
  /** Waits until a change through an API server is programmed. */
  async function follows(name: string, api: Api = plane.api): Promise<void> {
    await addService(api, name, {});
    await untilHolds(async () => {
      expect((await kernel(name)).map(({ kernelState }) => kernelState)).toEqual(['ok']);
    });
  }
  async function traffic(more: number): Promise<void> {
    const { connections } = await load.read();
    await untilHolds(async () => {
      expect((await load.read()).connections).toBeGreaterThan(connections + more);
    });
  }

  test('history compacted (410): the agent lists again and accepts the list at once', async () => {
    await addService(plane.api, 'unseen', {});
    await plane.forgetHistory();
    await follows('after-compaction');
    await untilHolds(async () => {
      const { watches } = await status();
      expect(watches.some(({ counters }) => counters.ends.expired > 0)).toBe(true);
    });
    const { watches } = await status();
    expect(watches.map(({ counters }) => counters.suspiciousLists)).toEqual([0, 0, 0, 0]);
  });

  test('a server that accepts connections but never answers: a new agent waits, traffic continues', async () => {
    await agent.kill();
    await plane.server.pause();
    const starting = startAgent();
    try {
      await traffic(500);
      expect((await load.read()).failures).toEqual([]);
    } finally {
      plane.server.resume();
    }
    agent = await starting;
    await follows('after-pause');
  });

  test('the first of two API servers dies: the agent uses the second and does not suspect a new store', async () => {
    const second = await plane.addServer();
    await agent.stop();
    agent = await startAgent([
      ...['--api-server', plane.server.nodeUrl],
      ...['--api-server', second.nodeUrl],
    ]);
    expect((await status()).server).toBe(plane.server.nodeUrl);
    await plane.server.kill();
    await follows('after-rotation', second.api);
    const { server, watches } = await status();
    expect(server).toBe(second.nodeUrl);
    expect(watches.map(({ counters }) => counters.ends.replaced)).toEqual([0, 0, 0, 0]);
    expect(watches.map(({ counters }) => counters.suspiciousLists)).toEqual([0, 0, 0, 0]);
    await plane.server.start();
    await second.stop();
    await follows('after-return');
  });

  test('a rejected token is reported once, and the programmed state stays', async () => {
    await agent.kill();
    const kubeconfig = plane.kubeconfig({ identity: 'unknown', from: 'node' });
    const { instance } = node;
    const [program = '', ...args] = insideSandbox(instance.sandbox, [
      ...[process.execPath, compiledPath('main.js'), 'run', '--kubeconfig', kubeconfig],
      ...['--hostname-override', 'n1', '--cgroup-root', instance.cgroupRoot, ...ownPaths(instance)],
    ]);
    const log: string[] = [];
    const refused = start(program, args, { onStderrLine: (line) => log.push(line) });
    try {
      await untilHolds(async () => expect((await status()).problems).toHaveLength(4), 60_000);
      const said = () => log.filter((line) => line.includes('HTTP 401: Unauthorized'));
      await untilHolds(() => expect(said()).toHaveLength(1), 60_000);
      await traffic(200);
      expect(refused.hasExited()).toBe(false);
      expect(said()).toEqual([expect.stringContaining('"kinds":"all"')]);
    } finally {
      await stop(refused);
    }
    agent = await startAgent();
    await follows('after-refusal');
  });
});
