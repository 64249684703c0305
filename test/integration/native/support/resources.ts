// SPDX-License-Identifier: Apache-2.0
// Resources that a test creates on this machine: a bpf file system, a cgroup, network namespaces. Each is named
// after this process and removed by its release().
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { mountBpffs, unmount } from '../../../../src/sys/native.ts';
import { missing, plainEnv } from './fixture.ts';

export interface TestResource {
  readonly path: string;
  /** Idempotent; called automatically at the end of the file if a test failed before calling it. */
  release(): void;
}

const held = new Set<TestResource>();
afterAll(() => {
  for (const resource of held) resource.release();
});

function hold(path: string, remove: () => void): TestResource {
  const resource = {
    path,
    release() {
      if (held.delete(resource)) remove();
    },
  };
  held.add(resource);
  return resource;
}

let serial = 0;
function uniqueName(): string {
  serial += 1;
  return `flt${process.pid}x${serial}`;
}

export function run(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', env: plainEnv(), stdio: 'pipe' });
}

export function makeFolder(): TestResource {
  const path = join(tmpdir(), uniqueName());
  mkdirSync(path);
  return hold(path, () => rmdirSync(path));
}

export function makeBpffs(): TestResource {
  const folder = makeFolder();
  mountBpffs(folder.path);
  return hold(folder.path, () => {
    unmount(folder.path);
    folder.release();
  });
}

function cgroupMount(): string {
  const line = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((text) => text.includes(' - cgroup2 '));
  const path = line?.split(' ')[4];
  if (path === undefined) throw new Error('no cgroup v2 hierarchy is mounted');
  return path;
}

export function makeCgroup(): TestResource {
  const path = join(cgroupMount(), uniqueName());
  mkdirSync(path);
  return hold(path, () => rmdirSync(path));
}

/** A network namespace with a veth pair v0, v1, both up, 192.0.2.2 behind v0; `path` is what nsenter wants. */
export function makeNetns(): TestResource {
  const name = uniqueName();
  run('ip', 'netns', 'add', name);
  const resource = hold(`/run/netns/${name}`, () => run('ip', 'netns', 'del', name));
  try {
    run('ip', '-n', name, 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1');
    run('ip', '-n', name, 'link', 'set', 'v0', 'up');
    run('ip', '-n', name, 'link', 'set', 'v1', 'up');
    // A static neighbour entry: every packet to it leaves v0 and arrives at v1 at once, without ARP.
    run('ip', '-n', name, 'address', 'add', '192.0.2.1/24', 'dev', 'v0');
    run(
      'ip',
      '-n',
      name,
      'neighbour',
      'add',
      '192.0.2.2',
      'lladdr',
      '02:00:00:00:00:02',
      'dev',
      'v0',
    );
  } catch (error) {
    resource.release();
    throw error;
  }
  return resource;
}

export function descriptorCount(): number {
  return readdirSync('/proc/self/fd').length;
}

// Leftovers of a killed test process, whose pid is in the name.
function sweep(folder: string, remove: (path: string, name: string) => void): void {
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    const owner = /^flt(\d+)x\d+$/.exec(name)?.[1];
    if (owner === undefined || existsSync(`/proc/${owner}`)) continue;
    const path = join(folder, name);
    try {
      remove(path, name);
    } catch (error) {
      // Another run may be sweeping as well.
      if (existsSync(path)) throw error;
    }
  }
}

if (missing === undefined) {
  sweep('/run/netns', (_path, name) => run('ip', 'netns', 'del', name));
  sweep(cgroupMount(), (path) => rmdirSync(path));
  sweep(tmpdir(), (path) => {
    if (readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${path} `)) unmount(path);
    rmdirSync(path);
  });
}
