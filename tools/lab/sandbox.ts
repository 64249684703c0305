// SPDX-License-Identifier: Apache-2.0
// The sandbox of a program: a network namespace and a cgroup. Pods have one, and so does a node (for
// programs that use the host's network).
import { join } from 'node:path';
import { insideCgroup } from '../../src/sys/cgroup.ts';
import { type Child, start } from '../../src/sys/exec.ts';
import { insideNamespace } from '../../src/sys/netns.ts';
import { packageRoot } from '../../src/sys/package.ts';

export interface Sandbox {
  /** For example `web-1`. */
  readonly name: string;
  readonly namespace: string;
  readonly cgroup: string;
}

const START_TIMEOUT_MS = 60_000;

/** A compiled program of this package. Tests start the compiled ones too: Node runs no TypeScript. */
export const compiledPath = (file: string): string => join(packageRoot(), 'dist', file);

/** A program of tools/, which the product does not contain. */
export const toolPath = (file: string): string => join(packageRoot(), 'build', 'tools', file);

/**
 * Arguments of env(1) for a start that is measured: the image sets no variable that makes Node read a file of certificates
 * before anything else, which takes 60 ms of CPU time and 2 MiB.
 */
export const IMAGE_ENVIRONMENT: readonly string[] = ['-u', 'NODE_EXTRA_CA_CERTS'];

/** Arguments that run `argv` in a sandbox. */
export function insideSandbox(sandbox: Sandbox, argv: readonly string[]): string[] {
  return insideCgroup(sandbox.cgroup, insideNamespace(sandbox.namespace, argv));
}

/** Starts a Node program of this package in a sandbox and waits for `ready`; later lines go to `onLine`. */
export async function startProgram(
  sandbox: Sandbox,
  program: 'client' | 'echo-server',
  args: readonly string[],
  onLine: (line: string) => void = () => undefined,
): Promise<Child> {
  const argv = [process.execPath, toolPath(`lab/${program}.js`), ...args];
  const [shell = 'sh', ...shellArgs] = insideSandbox(sandbox, argv);
  const talk: string[] = [];
  let isReady: () => void = () => undefined;
  const ready = new Promise<'ready'>((resolve) => {
    isReady = () => resolve('ready');
  });
  const child = start(shell, shellArgs, {
    onStdoutLine: (line) => (line === 'ready' ? isReady() : onLine(line)),
    onStderrLine: (line) => talk.push(line),
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS);
  const outcome = await Promise.race([ready, child.exited]);
  clearTimeout(timer);
  if (outcome === 'ready') return child;
  const last = talk.slice(-3).join('; ');
  throw new Error(`${program} in ${sandbox.name} ended with code ${outcome}: ${last}`);
}

/** Starts the echo server of a pod; it answers on these ports, TCP and UDP, IPv4 and IPv6. */
export function startServer(sandbox: Sandbox, ports: readonly number[]): Promise<Child> {
  return startProgram(sandbox, 'echo-server', [sandbox.name, ...ports.map(String)]);
}
