// SPDX-License-Identifier: Apache-2.0
// What real nodes run, built or found: the control plane, what scripts/cluster/build-nodes builds, and images.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, start } from '../../../src/sys/exec.ts';
import { readMounts } from '../../../src/sys/mounts.ts';
import { type Binaries, prepareCluster } from '../cluster/programs/binaries.ts';
import { type Images, makeImages } from './nodes/images.ts';

const BUILD_SCRIPT = fileURLToPath(
  new URL('../../../scripts/cluster/build-nodes', import.meta.url),
);
const CANNOT = 5;

export interface NodePrograms {
  /** For PATH: where the programs are. */
  readonly path: string;
  readonly plugins: string;
  readonly runc: string;
  readonly pod: string;
  readonly scheduler: string;
  readonly images: Images;
}

export type Readiness =
  | { readonly isReady: true; readonly binaries: Binaries; readonly programs: NodePrograms }
  | { readonly isReady: false; readonly reason: string };

/** May take many minutes, so test files await it at their top. A build that fails throws. */
export async function prepareNodes(): Promise<Readiness> {
  // Limits of containers, such as that of memory, need its controllers.
  const hasControllers = readMounts().some(
    ({ fsType, mountPoint }) => fsType === 'cgroup' && mountPoint === '/sys/fs/cgroup/memory',
  );
  if (!hasControllers) return refuse('needs the controllers of cgroup v1 beside cgroup v2');
  const cluster = await prepareCluster();
  if (!cluster.isReady) return refuse(cluster.reason);
  const built = await build();
  if ('reason' in built) return refuse(built.reason);
  const [pod = '', runc = '', plugins = '', , kubelet = '', coredns = ''] = built.folders;
  const images = await makeImages(pod, coredns);
  const programs = {
    path: [...built.folders, process.env['PATH']].join(':'),
    ...{ plugins, images },
    runc: join(runc, 'runc'),
    pod: join(pod, 'pod'),
    scheduler: join(kubelet, 'kube-scheduler'),
  };
  return { isReady: true, binaries: cluster.binaries, programs };
}

async function build(): Promise<
  { readonly folders: readonly string[] } | { readonly reason: string }
> {
  const known = await run(BUILD_SCRIPT, ['--path']);
  if (known.code === 0) return { folders: known.stdout.trim().split(':') };
  let path = '';
  const said: string[] = [];
  const child = start(BUILD_SCRIPT, [], {
    onStdoutLine: (line) => {
      path = line;
    },
    onStderrLine: (line) => {
      said.push(line);
      process.stderr.write(`${line}\n`);
    },
  });
  const code = await child.exited;
  if (code === 0) return { folders: path.split(':') };
  if (code === CANNOT) return { reason: said.at(-1) ?? '' };
  throw new Error(`scripts/cluster/build-nodes: code ${code}:\n${said.slice(-20).join('\n')}`);
}

/** Prints why tests are skipped; vitest only counts them. */
function refuse(reason: string): { readonly isReady: false; readonly reason: string } {
  process.stderr.write(`\n=== e2e tests SKIPPED: ${reason}\n\n`);
  return { isReady: false, reason };
}
