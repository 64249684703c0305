// SPDX-License-Identifier: Apache-2.0
// What happens to the agents of a stage.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findCgroup2, listProcesses } from '../../../../src/sys/cgroup.ts';
import { until } from '../../../support/until.ts';
import { rollOut } from '../nodes/use.ts';
import { agentPod, applyFairlead, patchOf, requestFairlead } from './proxies.ts';
import type { Stage } from './stage.ts';
import { restart } from './workloads.ts';

const SYSTEM = ['-n', 'kube-system'];
const CONTAINER = '/spec/template/spec/containers/0';

export const restartAgents = (stage: Stage): Promise<void> =>
  restart(stage, 'daemonset/fairlead', 'kube-system');

/** SIGKILL to the agent's process on every node, and a wait for its successor. */
export async function killAgents(stage: Stage): Promise<void> {
  for (const { name } of stage.nodes) {
    const before = await restarts(stage, name);
    for (const pid of agentProcesses(stage, name)) process.kill(pid, 'SIGKILL');
    const isBack = async (): Promise<boolean> => (await restarts(stage, name)) > before;
    await until(isBack, { what: `the agent of ${name} is started again`, timeoutMs: 60_000 });
    await rollOut(stage, 'daemonset/fairlead', 'kube-system');
  }
}

const restarts = async (stage: Stage, nodeName: string): Promise<number> =>
  Number(await fieldOf(stage, nodeName, 'restartCount'));

async function fieldOf({ plane }: Stage, nodeName: string, field: string): Promise<string> {
  const path = `jsonpath={.status.containerStatuses[0].${field}}`;
  return plane.kubectl([...SYSTEM, 'get', await agentPod(plane, nodeName), '-o', path]);
}

/** By its arguments, in the node's cgroups. */
function agentProcesses({ plane }: Stage, nodeName: string): number[] {
  const cgroup = join(findCgroup2() ?? '', plane.prefix, nodeName);
  return listProcesses(cgroup).filter((pid) => {
    try {
      const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      return !/(tini|kubelet)$/.test(program) && args.includes(`--hostname-override=${nodeName}`);
    } catch {
      return false; // It has ended.
    }
  });
}

/** A limit of memory that new agents do not fit in, until the kernel has killed one; then the manifest as it was. */
export async function starveAgents(stage: Stage): Promise<void> {
  const limits = { memory: '32Mi' };
  const value = { limits, requests: { ...limits, cpu: '100m' } };
  const patch = patchOf({ op: 'replace', path: `${CONTAINER}/resources`, value });
  await requestFairlead(stage, { patch });
  await until(
    async () => {
      const reasons = await Promise.all(
        stage.nodes.map(({ name }) => fieldOf(stage, name, 'lastState.terminated.reason')),
      );
      return reasons.includes('OOMKilled');
    },
    { what: 'an agent is killed for its memory', timeoutMs: 120_000 },
  );
  await applyFairlead(stage);
}

/** Larger and smaller maps, and those of before. */
export async function changeMapSizes(stage: Stage): Promise<void> {
  const value = '--map-size=frontends=32768,backends=65536,flows=131072';
  const patch = patchOf({ op: 'add', path: `${CONTAINER}/args/-`, value });
  await applyFairlead(stage, { patch });
  await applyFairlead(stage);
}

/** No API server for a while; agents that start meanwhile adopt what is programmed. */
export async function stopApiServer(stage: Stage): Promise<void> {
  await stage.plane.server.kill();
  for (const { name } of stage.nodes.slice(0, 1)) {
    for (const pid of agentProcesses(stage, name)) process.kill(pid, 'SIGKILL');
    await until(() => agentProcesses(stage, name).length > 0, `a new agent of ${name}`);
  }
  await stage.plane.server.start();
  await restart(stage, 'deployment/web');
  await rollOut(stage, 'daemonset/fairlead', 'kube-system');
}
