// SPDX-License-Identifier: Apache-2.0
// The real agent of a node against a control plane: kube-proxy's flags, a kubeconfig, the node's own
// network namespace.

import { start, stop } from '../../../../src/sys/exec.ts';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { getInSandbox, type HttpAnswer } from '../../../support/http/get.ts';
import type { TestNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import type { Identity } from '../control-plane/identities.ts';

export interface ClusterAgent {
  readonly log: readonly string[];
  /** Sends a request to a port of the node, from the node itself. */
  http(port: number, path: string): Promise<HttpAnswer>;
  kill(): Promise<void>;
  stop(): Promise<number>;
}

export interface ClusterAgentOptions {
  readonly identity: Identity;
  readonly flags?: readonly string[];
}

/** Resolves when the initial sync is done. */
export async function startClusterAgent(
  plane: ControlPlane,
  node: TestNode,
  { identity, flags = [] }: ClusterAgentOptions,
): Promise<ClusterAgent> {
  const { instance } = node;
  const kubeconfig = plane.kubeconfig({ identity, from: 'node' });
  const args = [
    ...['run', '--kubeconfig', kubeconfig, '--hostname-override', instance.nodeName],
    ...['--cgroup-root', instance.cgroupRoot, ...ownPaths(instance), ...flags],
  ];
  const [program = '', ...rest] = insideSandbox(instance.sandbox, [
    process.execPath,
    compiledPath('main.js'),
    ...args,
  ]);
  const log: string[] = [];
  const child = start(program, rest, { onStderrLine: (line) => log.push(line) });
  await until(() => log.some((line) => line.includes('"msg":"ready"')), {
    what: `the agent to be ready; its log: ${log.slice(-5).join('\n')}`,
    timeoutMs: 60_000,
  });
  return {
    log,
    http: (port, path) => getInSandbox(instance.sandbox, port, path),
    kill: async () => {
      child.kill('SIGKILL');
      await child.exited;
    },
    stop: () => stop(child),
  };
}
