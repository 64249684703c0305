// SPDX-License-Identifier: Apache-2.0
// One container of a Pod, run by crun from the image's files in a sandbox of the node, as a container runtime
// would. With `hostNetwork` it stays in the network namespace of its sandbox.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type RunResult, run, start } from '../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../../tools/lab/sandbox.ts';
import { runtimeDefault } from '../../support/programs/seccomp.ts';
import { until } from '../../support/until.ts';
import type { RunnableImage } from './image.ts';
import { type ContainerMount, rootPropagation, runtimeMounts } from './mounts.ts';

export interface ContainerSpec {
  readonly name: string;
  /** Replaces the image's entry point. */
  readonly command?: readonly string[];
  /** Replaces the image's arguments. */
  readonly args?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly ContainerMount[];
  /** Named as Kubernetes does: `NET_ADMIN`. */
  readonly capabilities: readonly string[];
  readonly isPrivileged: boolean;
  /** User and group; root if absent. */
  readonly user?: number;
  readonly isRootReadOnly: boolean;
  readonly mayGainPrivileges: boolean;
  /** seccompProfile RuntimeDefault; else Unconfined, as the kubelet has it. */
  readonly isFiltered: boolean;
  /** A program that starts the container's, on this machine: `setarch`. */
  readonly under?: readonly string[];
}

/** Where a container runs, and the root of its cgroup hierarchy. */
export interface Machine {
  readonly sandbox: Sandbox;
  readonly image: RunnableImage;
  /** Holds files of containers; removed with the topology, with all mounts below it. */
  readonly directory: string;
  readonly cgroupRoot: string;
}

export interface Container {
  readonly log: readonly string[];
  readonly exited: Promise<number>;
  /** Runs a program in it, as `kubectl exec` does. */
  exec(...argv: readonly string[]): Promise<RunResult>;
  /** Waits until its first process is this program; returns its process id on this machine. */
  isRunning(program: string): Promise<number>;
  /** Signals its first process. */
  signal(name: 'TERM' | 'KILL'): Promise<void>;
  /** Waits for a line of the log that has this text. */
  said(text: string): Promise<void>;
  /** SIGTERM, then SIGKILL; removes its mounts. */
  remove(): Promise<void>;
}

let count = 0;

export async function startContainer(machine: Machine, spec: ContainerSpec): Promise<Container> {
  count += 1;
  const id = `${machine.sandbox.namespace}-${spec.name}-${count}`;
  const bundle = join(machine.directory, id);
  const rootfs = await mountRootfs(machine.image, bundle);
  await writeConfig(join(bundle, 'config.json'), machine, spec);
  const log: string[] = [];
  const keep = (line: string): void => void log.push(line);
  const crun = (...args: readonly string[]): string[] => crunArgv(machine, args);
  const argv = crunArgv(machine, ['run', '--bundle', bundle, id], spec.under);
  const [shell = 'sh', ...args] = argv;
  const child = start(shell, args, { onStdoutLine: keep, onStderrLine: keep });
  const finish = ([program = 'sh', ...rest]: readonly string[]): Promise<RunResult> =>
    run(program, rest);
  const signal = async (name: string): Promise<void> => void (await finish(crun('kill', id, name)));
  return {
    ...{ log, exited: child.exited, signal },
    exec: (...argv) => finish(crun('exec', id, ...argv)),
    isRunning: async (program) => {
      const find = async (): Promise<number | undefined> => {
        const { code, stdout } = await finish(crun('state', id));
        const pid = code === 0 ? Number(JSON.parse(stdout).pid) : 0;
        return pid > 0 && nameOf(pid) === program ? pid : undefined;
      };
      return await until(find, { what: `${program} in ${id}`, timeoutMs: 120_000 });
    },
    said: async (text) => {
      const find = (): boolean => log.some((line) => line.includes(text)) || child.hasExited();
      await until(find, { what: text, timeoutMs: 120_000 });
      if (!log.some((line) => line.includes(text))) throw new Error(log.slice(-8).join('\n'));
    },
    remove: async () => {
      await signal('TERM');
      const insist = setTimeout(() => void signal('KILL'), 5_000);
      await child.exited;
      clearTimeout(insist);
      await run('umount', [rootfs]);
    },
  };
}

/** crun does not support mixed cgroup v1 and v2: it sees only the node's own v2 hierarchy. */
const ON_CGROUP2 = `mount --make-private /sys/fs/cgroup
mount -n --bind "$0" /sys/fs/cgroup
exec "$@"`;

/** crun creates no cgroup: containers stay in that of their sandbox, which is removed with the topology. */
function crunArgv(
  machine: Machine,
  args: readonly string[],
  under: readonly string[] = [],
): string[] {
  const crun = [
    ...under,
    'crun',
    '--root',
    join(machine.directory, 'crun'),
    '--cgroup-manager=disabled',
  ];
  const unshare = ['unshare', '--mount', '--propagation', 'unchanged'];
  const shell = [...unshare, 'sh', '-e', '-c', ON_CGROUP2, machine.cgroupRoot];
  return insideSandbox(machine.sandbox, [...shell, ...crun, ...args]);
}

/** The image's files with a layer above them for what this container writes. */
async function mountRootfs(image: RunnableImage, bundle: string): Promise<string> {
  const [upper, work, rootfs] = ['upper', 'work', 'rootfs'].map((name) => join(bundle, name));
  for (const path of [upper, work, rootfs]) mkdirSync(path!, { recursive: true });
  const layers = `lowerdir=${image.rootfs},upperdir=${upper},workdir=${work}`;
  const { code, stderr } = await run('mount', ['-t', 'overlay', '-o', layers, 'overlay', rootfs!]);
  if (code !== 0) throw new Error(`cannot mount the image: ${stderr.trim()}`);
  return rootfs!;
}

const nameOf = (pid: number): string => {
  const path = `/proc/${pid}/comm`;
  return existsSync(path) ? readFileSync(path, 'utf8').trim() : '';
};

async function writeConfig(path: string, machine: Machine, spec: ContainerSpec): Promise<void> {
  const config = runtimeConfig(machine, spec);
  if (spec.isFiltered) {
    const seccomp = await runtimeDefault(machine.image.seccomp, config);
    Object.assign(config.linux, { seccomp });
  }
  writeFileSync(path, JSON.stringify(config));
}

/** config.json of the OCI runtime specification. */
function runtimeConfig({ image, cgroupRoot }: Machine, spec: ContainerSpec) {
  const { config } = image;
  const command = spec.command ?? config.Entrypoint;
  const args = spec.args ?? (spec.command === undefined ? config.Cmd : []);
  const env = Object.entries(spec.env).map(([name, value]) => `${name}=${value}`);
  const names = spec.capabilities.map((name) => `CAP_${name}`);
  const namespaces = ['pid', 'ipc', 'mount', ...(spec.isPrivileged ? [] : ['cgroup'])];
  return {
    ociVersion: '1.0.2',
    root: { path: 'rootfs', readonly: spec.isRootReadOnly },
    process: {
      ...{
        terminal: false,
        user: { uid: spec.user ?? 0, gid: spec.user ?? 0 },
        cwd: config.WorkingDir,
      },
      args: [...command, ...args],
      env: [...config.Env, ...env],
      capabilities: { bounding: names, effective: names, permitted: names },
      noNewPrivileges: !spec.mayGainPrivileges,
    },
    mounts: [...runtimeMounts(spec.isPrivileged, cgroupRoot), ...spec.mounts],
    linux: {
      namespaces: namespaces.map((type) => ({ type })),
      rootfsPropagation: rootPropagation(spec.mounts),
    },
  };
}

/** The capabilities of a privileged container: all those of this machine's root, by name. */
export async function everyCapability(): Promise<string[]> {
  const { stdout } = await run('setpriv', ['--dump']);
  const names = /^Capability bounding set: (.*)$/m.exec(stdout)?.[1] ?? '';
  return names.split(',').map((name) => name.toUpperCase());
}
