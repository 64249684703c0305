// Places of our own on this machine: a bpf file system, a cgroup, network namespaces. Each is named
// after this process and taken away by its release().
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mountBpffs, unmount } from '../../../src/sys/native.ts';
import { plainEnv } from './fixture.ts';

export interface Place {
  readonly path: string;
  release(): void;
}

let serial = 0;
function uniqueName(): string {
  serial += 1;
  return `flt${process.pid}x${serial}`;
}

export function makeBpffs(): Place {
  const path = mkdtempSync(join(tmpdir(), 'fairlead-native-'));
  mountBpffs(path);
  return {
    path,
    release() {
      unmount(path);
      rmdirSync(path);
    },
  };
}

function cgroupMount(): string {
  const line = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((text) => text.includes(' - cgroup2 '));
  const path = line?.split(' ')[4];
  if (path === undefined) throw new Error('no cgroup v2 hierarchy is mounted');
  return path;
}

export function makeCgroup(): Place {
  const path = join(cgroupMount(), uniqueName());
  mkdirSync(path);
  return { path, release: () => rmdirSync(path) };
}

export function run(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', env: plainEnv(), stdio: 'pipe' });
}

/** A network namespace with a veth pair v0, v1, both up, 192.0.2.2 behind v0; `path` is what nsenter wants. */
export function makeNetns(): Place {
  const name = uniqueName();
  run('ip', 'netns', 'add', name);
  const release = () => run('ip', 'netns', 'del', name);
  try {
    run('ip', '-n', name, 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1');
    run('ip', '-n', name, 'link', 'set', 'v0', 'up');
    run('ip', '-n', name, 'link', 'set', 'v1', 'up');
    // A neighbour by hand: every packet to it leaves v0 and arrives at v1 at once, unanswered.
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
    release();
    throw error;
  }
  return { path: `/run/netns/${name}`, release };
}

export function descriptorCount(): number {
  return readdirSync('/proc/self/fd').length;
}
