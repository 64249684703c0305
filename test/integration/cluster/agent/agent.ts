// SPDX-License-Identifier: Apache-2.0
// The real agent of a node against a control plane: kube-proxy's flags, a kubeconfig, the node's own
// network namespace.

import type { RunResult } from '../../../../src/sys/exec.ts';
import { run, start, stop } from '../../../../src/sys/exec.ts';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import type { TestNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import type { Identity } from '../control-plane/identities.ts';

export interface ClusterAgent {
  readonly log: readonly string[];
  /** Sends a request to a port of the node, from the node itself. */
  http(port: number, path: string): Promise<{ readonly status: number; readonly body: string }>;
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
    http: (port, path) => curl(node, port, path),
    kill: async () => {
      child.kill('SIGKILL');
      await child.exited;
    },
    stop: () => stop(child),
  };
}

const FETCH = `const r = await fetch(process.argv[1]); console.log(JSON.stringify({ status: r.status, body: await r.text() }));`;

async function curl(
  node: TestNode,
  port: number,
  path: string,
): Promise<{ status: number; body: string }> {
  const url = `http://127.0.0.1:${port}${path}`;
  const [program = '', ...args] = insideSandbox(node.instance.sandbox, [
    process.execPath,
    '--input-type=module',
    '-e',
    FETCH,
    url,
  ]);
  const { stdout, stderr, code }: RunResult = await run(program, args);
  if (code !== 0) throw new Error(`${url}: ${stderr}`);
  return JSON.parse(stdout) as { status: number; body: string };
}
