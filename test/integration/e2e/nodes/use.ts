// SPDX-License-Identifier: Apache-2.0
// What tests do with a cluster of real nodes.
import { dump } from 'js-yaml';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { until } from '../../../support/until.ts';
import type { RealCluster } from './nodes.ts';

const ROLL_OUT_MS = 90_000;

/** `kubectl apply` of objects. */
export async function apply({ plane }: RealCluster, ...objects: readonly object[]): Promise<void> {
  const text = objects.map((object) => dump(object)).join('---\n');
  await plane.kubectl(['apply', '-f', '-'], text);
}

/** Waits until all pods of a workload are those of its present template, and ready. `what`: `deployment/web`. */
export async function rollOut(
  cluster: RealCluster,
  what: string,
  namespace = 'default',
): Promise<void> {
  const { plane } = cluster;
  const args = ['-n', namespace, 'rollout', 'status', what, '--timeout=30s'];
  const isDone = async (): Promise<boolean> => (await plane.kubectl(args)) !== '';
  await until(isDone, { what: `${what} is rolled out`, timeoutMs: ROLL_OUT_MS }).catch(
    async (cause: unknown) => {
      throw new Error(`${what} is not rolled out:\n${await explain(cluster, what, namespace)}`, {
        cause,
      });
    },
  );
}

/** For the message of a failure: the pods, what the nodes say of them, and what a workload has printed. */
async function explain({ plane }: RealCluster, what: string, namespace: string): Promise<string> {
  const questions = [
    ['get', 'pods', '-A', '-o', 'wide'],
    ['-n', namespace, 'get', 'events', '--field-selector=type!=Normal'],
    ['-n', namespace, 'logs', what, '--tail=30', '--all-containers'],
    ['-n', namespace, 'logs', what, '--tail=30', '--all-containers', '--previous'],
  ];
  const answers = questions.map((args) => plane.kubectl(args).catch(String));
  return (await Promise.all(answers)).join('\n');
}

/** What a server answers to a program in a namespace, which belongs to no pod. */
export async function callFrom(
  { programs }: RealCluster,
  namespace: string,
  url: string,
  body = '',
): Promise<string> {
  const [nsenter = '', ...args] = insideNamespace(namespace, [programs.pod, 'call', url, body]);
  const { code, stdout, stderr } = await run(nsenter, args);
  if (code !== 0) throw new Error(`${url}: ${stderr.trim()}`);
  return stdout;
}
