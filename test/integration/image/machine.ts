// SPDX-License-Identifier: Apache-2.0
// Where containers of the image run: the first of some nodes, with a root of its own, which has the node's cgroups.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../../src/sys/exec.ts';
import type { TestNodes } from '../../support/node.ts';
import type { Machine } from './container.ts';
import type { RunnableImage } from './image.ts';

export interface Rooted {
  readonly machine: Machine;
  /** The node's root: hostPath /x is x below it. It has no bpf file system. */
  readonly root: string;
}

export async function makeMachine(nodes: TestNodes, image: RunnableImage): Promise<Rooted> {
  const directory = join(nodes.topology.directory, 'image');
  const { cgroupRoot, sandbox } = nodes.nodes[0]!.instance;
  const root = await makeRoot(directory, cgroupRoot);
  return { root, machine: { sandbox, image, directory, cgroupRoot: join(root, CGROUPS) } };
}

const CGROUPS = 'sys/fs/cgroup';

/** Mounts made by a container appear in the node's /sys/fs/bpf, as on a machine with systemd. */
async function makeRoot(directory: string, cgroupRoot: string): Promise<string> {
  const root = join(directory, 'root');
  const [bpf, cgroup] = [join(root, 'sys/fs/bpf'), join(root, CGROUPS)];
  for (const path of [bpf, cgroup, join(root, 'lib/modules')]) mkdirSync(path, { recursive: true });
  for (const args of [
    ['--bind', bpf, bpf],
    ['--make-shared', bpf],
    ['--bind', cgroupRoot, cgroup],
  ]) {
    const { code, stderr } = await run('mount', args);
    if (code !== 0) throw new Error(`mount ${args.join(' ')}: ${stderr.trim()}`);
  }
  return root;
}
