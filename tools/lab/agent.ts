// SPDX-License-Identifier: Apache-2.0
// The real agent, run as a user would run it: a child process in a node's network namespace, with pins,
// socket and manifests of its own. Other commands of the same instance run in the same sandbox.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Child, type RunResult, run, start, stop } from '../../src/sys/exec.ts';
import { isBpffs } from '../../src/sys/mounts.ts';
import { type ManifestDirectory, openManifests } from './manifests.ts';
import { mountBpffs } from './mounting.ts';
import { compiledPath, insideSandbox, type Sandbox } from './sandbox.ts';
import type { Topology } from './topology.ts';
import type { NodeHost } from './wiring.ts';

/** Everything that is one instance and outlives its process. */
export interface Instance {
  readonly nodeName: string;
  readonly sandbox: Sandbox;
  readonly manifests: ManifestDirectory;
  readonly cgroupRoot: string;
  readonly bpfRoot: string;
  readonly runDir: string;
  /** Another build of fairlead: its main.js. */
  readonly program?: string;
  /** A program that runs the one that follows, with less privileges: `setpriv …`. */
  readonly wrapper?: readonly string[];
}

/** Makes the directories and the BPF file system of a node's instance. */
export async function makeInstance(topology: Topology, node: NodeHost): Promise<Instance> {
  const home = join(topology.directory, node.name);
  const bpffs = join(topology.directory, 'bpf');
  const manifests = join(home, 'manifests');
  const runDir = join(home, 'run');
  for (const path of [manifests, runDir, bpffs]) mkdirSync(path, { recursive: true });
  if (!isBpffs(bpffs)) await mountBpffs(bpffs);
  return {
    nodeName: node.name,
    sandbox: {
      name: `agent of ${node.name}`,
      namespace: node.namespace,
      cgroup: topology.toolsCgroup,
    },
    manifests: openManifests(manifests),
    cgroupRoot: node.cgroup,
    bpfRoot: join(bpffs, node.name),
    runDir,
  };
}

export interface Agent {
  readonly child: Child;
  /** From the start of the process until its first sync was in the kernel. */
  readonly readyAfterMs: number;
  /** Its log so far, one JSON object a line. */
  readonly log: readonly string[];
  /** SIGKILL: the agent cannot clean up. */
  kill(): Promise<void>;
  stop(): Promise<number>;
}

/** On a machine with much other work. */
const READY_TIMEOUT_MS = 180_000;
const COMMAND_TIMEOUT_MS = 120_000;

/** Runs the agent and waits for `ready`. Throws with the end of its log if it exits. */
export async function startAgent(
  instance: Instance,
  flags: readonly string[] = [],
): Promise<Agent> {
  const startedMs = performance.now();
  const log: string[] = [];
  let isReady: () => void = () => undefined;
  const ready = new Promise<'ready'>((resolve) => {
    isReady = () => resolve('ready');
  });
  const { manifests, nodeName, cgroupRoot } = instance;
  const source = ['--manifests', manifests.path, '--hostname-override', nodeName];
  const args = ['run', ...source, '--cgroup-root', cgroupRoot, ...ownPaths(instance), ...flags];
  const [program, ...rest] = commandLine(instance, args);
  const child = start(program ?? '', rest, {
    onStderrLine: (line) => {
      log.push(line);
      if (line.includes('"msg":"ready"')) isReady();
    },
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), READY_TIMEOUT_MS);
  const outcome = await Promise.race([ready, child.exited]);
  clearTimeout(timer);
  if (outcome !== 'ready') {
    throw new Error(`the agent ended with code ${outcome}: ${log.slice(-3).join('\n')}`);
  }
  return {
    ...{ child, log, readyAfterMs: performance.now() - startedMs },
    kill: async () => {
      child.kill('SIGKILL');
      await child.exited;
    },
    stop: () => stop(child),
  };
}

/** Runs another command of the same instance to its end, e.g. `['status', '-o', 'json']`. */
export function runCommand(instance: Instance, args: readonly string[]): Promise<RunResult> {
  const [program, ...rest] = commandLine(instance, args);
  return run(program ?? '', rest, { timeoutMs: COMMAND_TIMEOUT_MS });
}

/** The flags by which commands find this instance. */
export function ownPaths({ bpfRoot, runDir }: Instance): string[] {
  return ['--bpf-root', bpfRoot, '--run-dir', runDir];
}

function commandLine(instance: Instance, args: readonly string[]): string[] {
  const { program = compiledPath('main.js'), wrapper = [] } = instance;
  return insideSandbox(instance.sandbox, [...wrapper, process.execPath, program, ...args]);
}
