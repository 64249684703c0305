// SPDX-License-Identifier: Apache-2.0
// An agent killed at the worst time: during a change, or during its start. No connection fails, and the next agent
// repairs the programmed state.
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { start } from '../../../../src/sys/exec.ts';
import { type Agent, ownPaths } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import { expectKernel, type FrontendRow } from '../../../support/dataplane/kernel-oracle.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { emptyModel } from '../../../support/model.ts';
import { startOneNode } from '../../../support/node.ts';
import {
  ANY_NUMBER_MS,
  atNight,
  fraction,
  podSets,
  repeatable,
  SEED,
} from '../../../support/random.ts';
import { untilHolds } from '../../../support/until.ts';

const POD_NAMES = ['a', 'b', 'c', 'd'];
/** Enough Services that a change of all of them takes a while to apply. */
const SERVICES = 60;
const ROUNDS = atNight(8, 30);
/** An agent sees a change after 10 ms and applies it within a few more. */
const LATEST_KILL_MS = 40;
const LATEST_START_KILL_MS = 450;

const model = emptyModel();
/** New backends for every Service, and how long after the change the agent is killed. */
const sets = podSets(SERVICES, POD_NAMES.length);
const rounds = (run: (sets: readonly number[][], life: number) => Promise<void>) =>
  fc.assert(fc.asyncProperty(sets, fraction, run), repeatable(ROUNDS));
let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;

beforeAll(async () => {
  node = await startOneNode(POD_NAMES);
  for (let n = 1; n <= SERVICES; n++) {
    model.services.set(`svc-${n}`, { n, protocol: n % 2 === 0 ? 'UDP' : 'TCP' });
  }
  changeAll(fc.sample(sets, { seed: SEED, numRuns: 1 })[0]!);
  agent = await node.startAgent();
});
afterAll(() => node?.remove());

/** All pods are alive, and every Service has at least one, so no connection may ever fail. */
function changeAll(sets: readonly number[][]): void {
  const all = [...model.services].flatMap(([name, spec], index) => {
    const endpoints = sets[index]!.map((at) => ({ pod: node.servers[at]! }));
    model.slices.set(name, { spec, endpoints });
    return [svc(name, spec), ...slices(name, endpoints, spec)];
  });
  node.manifests.put('all.yaml', all);
}

const isRight = (): Promise<void> => untilHolds(() => expectKernel(node.instance.runDir, model));

test(
  `killed ${ROUNDS} times while it changes ${SERVICES} Services: no failure, and in sync after a restart`,
  async () => {
    const tcp = await node.client().startLoad(target({ n: 1 }), { concurrency: 2 });
    const udp = await node
      .client()
      .startLoad(target({ n: 2, protocol: 'UDP' }), { concurrency: 2 });
    await rounds(async (sets, life) => {
      changeAll(sets);
      // Not a wait for a condition: the time of the kill is what varies.
      await pause(life * LATEST_KILL_MS);
      await agent.kill();
      agent = await node.startAgent();
      await isRight();
    });
    expect((await tcp.stop()).failures).toEqual([]);
    expect((await udp.stop()).failures).toEqual([]);
  },
  ANY_NUMBER_MS,
);

test(
  `killed ${ROUNDS} times while it starts: no failure, and the next start succeeds`,
  async () => {
    const load = await node.client().startLoad(target({ n: 1 }), { concurrency: 2 });
    await agent.kill();
    const { instance } = node;
    const flags = ['--manifests', instance.manifests.path, '--cgroup-root', instance.cgroupRoot];
    const run = ['run', '--hostname-override', instance.nodeName, ...flags, ...ownPaths(instance)];
    const argv = insideSandbox(instance.sandbox, [
      process.execPath,
      compiledPath('main.js'),
      ...run,
    ]);
    await rounds(async (sets, life) => {
      changeAll(sets);
      const unlucky = start(argv[0]!, argv.slice(1));
      await pause(life * LATEST_START_KILL_MS);
      unlucky.kill('SIGKILL');
      await unlucky.exited;
    });
    agent = await node.startAgent();
    await isRight();
    expect((await load.stop()).failures).toEqual([]);
  },
  ANY_NUMBER_MS,
);

test(
  'removing all Services afterwards leaves no backend and no frontend',
  async () => {
    for (const { n, protocol } of model.services.values()) {
      const answer = await node.client().once(target({ n, protocol: protocol ?? 'TCP' }));
      expect(answer.kind).toBe('answered');
    }
    node.manifests.put('all.yaml', service('last', { n: 200 }, node.servers));
    await untilHolds(async () => {
      const rows = (await askAgent(node.instance.runDir, '/v1/services')) as FrontendRow[];
      expect(rows.map(({ frontend }) => frontend).sort()).toEqual([
        '10.96.0.200:80/TCP',
        '[fd00:96::c8]:80/TCP',
      ]);
      const backends = (await askAgent(node.instance.runDir, '/v1/backends')) as unknown[];
      expect(backends).toHaveLength(2 * POD_NAMES.length);
    });
  },
  ANY_NUMBER_MS,
);
