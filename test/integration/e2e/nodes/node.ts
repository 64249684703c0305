// SPDX-License-Identifier: Apache-2.0
// One node: a containerd and a kubelet in namespaces of their own.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RunResult, run } from '../../../../src/sys/exec.ts';
import { addNamespaces, ipBatch, writeSysctls } from '../../../../src/sys/netns.ts';
import type { Sandbox } from '../../../../tools/lab/sandbox.ts';
import { NODE_SYSCTLS } from '../../../../tools/lab/wiring.ts';
import type { ControlPlane } from '../../cluster/control-plane/control-plane.ts';
import { type Program, startProgram, untilReady } from '../../cluster/programs/program.ts';
import type { NodePrograms } from '../programs.ts';
import { nodeAddress, nodeFiles, SOCKET } from './settings.ts';

const SCRIPT = fileURLToPath(new URL('node.sh', import.meta.url));
const IMPORT_MS = 300_000;

export interface RealNode {
  readonly name: string;
  readonly index: number;
  readonly address: string;
  readonly namespace: string;
  readonly containerd: Program;
  readonly kubelet: Program;
  /** Runs a program on the node. */
  run(argv: readonly string[], timeoutMs?: number): Promise<RunResult>;
  importImage(archive: string): Promise<void>;
  /** Installs the CNI plugin's configuration: without it a node is not Ready, and only pods in its own network run. */
  addNetwork(): Promise<void>;
}

interface Machine {
  readonly plane: ControlPlane;
  readonly name: string;
  readonly index: number;
  readonly sandbox: Sandbox;
  readonly pid: number;
}

/** Resolves when containerd answers; the kubelet may still be registering the node. */
export async function startNode(
  plane: ControlPlane,
  programs: NodePrograms,
  name: string,
  index: number,
): Promise<RealNode> {
  const machine = await makeMachine(plane, programs, name, index);
  const launch = (program: string, ...args: readonly string[]): Program =>
    startProgram(machine.sandbox, `${program} of ${name}`, [
      ...enter(machine),
      ...['setpriv', '--pdeathsig', 'KILL', 'env', `PATH=${programs.path}`, program, ...args],
    ]);
  const containerd = launch('containerd', '--config=/run/containerd.toml', '--log-level=warn');
  const ctr = ['env', `PATH=${programs.path}`, 'ctr', '--address', SOCKET, '--namespace', 'k8s.io'];
  const onNode = (argv: readonly string[], timeoutMs = 60_000): Promise<RunResult> => {
    const [shell = 'sh', ...args] = [...enter(machine), ...argv];
    return run(shell, args, { timeoutMs });
  };
  await untilReady(
    containerd,
    async () => (await onNode([...ctr, 'plugins', 'list', '--quiet'])).code === 0,
  );
  const importImage = async (archive: string): Promise<void> => {
    const { code, stderr } = await onNode([...ctr, 'images', 'import', archive], IMPORT_MS);
    if (code !== 0) throw new Error(`import of ${archive} on ${name}: ${stderr.trim()}`);
  };
  await importImage(programs.images.pause);
  const kubelet = launch(
    'kubelet',
    '--config=/run/kubelet.yaml',
    '--kubeconfig=/run/kubeconfig',
    `--hostname-override=${name}`,
    `--node-ip=${nodeAddress(index)}`,
    '--v=1',
  );
  const addNetwork = async (): Promise<void> => {
    await onNode(['cp', '/run/cni.conflist', '/etc/cni/net.d/10-ptp.conflist']);
  };
  const { namespace } = machine.sandbox;
  const address = nodeAddress(index);
  const actions = { run: onNode, importImage, addNetwork };
  return { name, index, address, namespace, containerd, kubelet, ...actions };
}

const enter = ({ plane, name, pid }: Machine): string[] => [
  SCRIPT,
  'enter',
  plane.prefix,
  name,
  String(pid),
];

async function makeMachine(
  plane: ControlPlane,
  programs: NodePrograms,
  name: string,
  index: number,
): Promise<Machine> {
  const namespace = `${plane.prefix}-${name}`;
  const directory = join(plane.directory, name);
  mkdirSync(directory);
  const kubeconfig = readFileSync(plane.kubeconfig({ identity: 'admin', from: 'node' }), 'utf8');
  const files = nodeFiles({ index, kubeconfig, plugins: programs.plugins, runc: programs.runc });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(directory, file), text);
  addNamespaces([namespace]);
  await writeSysctls(namespace, NODE_SYSCTLS);
  await ipBatch(['link set lo up'], namespace);
  await plane.connect({ namespace, index });
  const sandbox = plane.sandbox(name, namespace);
  const argv = [SCRIPT, 'make', directory, plane.prefix, name, programs.pod, 'pause'];
  const holder = startProgram(sandbox, `node ${name}`, argv);
  await untilReady(holder, async () => holder.tail(1) === 'ready');
  return { plane, name, index, sandbox, pid: holder.pid };
}
