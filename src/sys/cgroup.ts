// SPDX-License-Identifier: Apache-2.0
// The cgroup v2 hierarchy: where it is mounted, and sub-cgroups that fairlead creates. Only processes in a
// cgroup that fairlead created are ever killed.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Mount, readMounts } from './mounts.ts';
import { fileSystemType } from './native.ts';

const CGROUP2_MAGIC = 0x63677270;
/** Of the hierarchy's root; the root of a cgroup namespace has another. */
export const ROOT_CGROUP_ID = 1n;

/** Where cgroup v2 is mounted (a hybrid system has it beside v1), or undefined if it is not. */
export function findCgroup2(mounts: readonly Mount[] = readMounts()): string | undefined {
  const writable = mounts.filter(({ fsType, isReadOnly }) => fsType === 'cgroup2' && !isReadOnly);
  return (writable.find(({ root }) => root === '/') ?? writable[0])?.mountPoint;
}

export function isCgroup2(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory() && fileSystemType(path) === CGROUP2_MAGIC;
}

/** A cgroup's id, the same in every cgroup namespace, is the inode number of its directory. */
export const cgroupId = (path: string): bigint => statSync(path, { bigint: true }).ino;

/** Ids of a cgroup and of its ancestors that this mount shows, the cgroup itself first. */
export function lineageOf(path: string): bigint[] {
  return isCgroup2(path) ? [cgroupId(path), ...lineageOf(dirname(path))] : [];
}

/**
 * The paths of these cgroups, as far as this mount shows them. Reads the whole hierarchy, in which others come and go
 * meanwhile, as those of pods do: one that is removed has no path.
 */
export function findCgroups(
  ids: ReadonlySet<bigint>,
  root: string,
  found: Map<bigint, string> = new Map(),
): ReadonlyMap<bigint, string> {
  const below = unlessRemoved(() => {
    const id = cgroupId(root);
    if (ids.has(id)) found.set(id, root);
    return subCgroups(root);
  });
  for (const path of below ?? []) {
    if (found.size < ids.size) findCgroups(ids, path, found);
  }
  return found;
}

/** undefined: the cgroup that is read does not exist any more. */
function unlessRemoved<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Creates a cgroup and its parents unless they exist. */
export function makeCgroup(path: string): void {
  mkdirSync(path, { recursive: true });
}

/** Arguments that run `argv` inside a cgroup. The process keeps its id: each step replaces the last. */
export function insideCgroup(path: string, argv: readonly string[]): string[] {
  return ['sh', '-c', 'echo $$ > "$0" && exec "$@"', join(path, 'cgroup.procs'), ...argv];
}

/** Ids of the processes in this cgroup and in those below it. */
export function listProcesses(path: string): number[] {
  if (!existsSync(path)) return [];
  const own = readFileSync(join(path, 'cgroup.procs'), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && line !== '0')
    .map(Number);
  return [...own, ...subCgroups(path).flatMap(listProcesses)];
}

/**
 * Kills all processes in a cgroup that fairlead created, then removes it with its descendants. Blocks until the
 * kernel has removed it; throws after `timeoutMs`. Succeeds if the cgroup does not exist.
 */
export function removeCgroup(path: string, timeoutMs = 20_000): void {
  const deadlineMs = Date.now() + timeoutMs;
  while (existsSync(path)) {
    try {
      // Again in every round: a process may have forked between the listing and the signal.
      for (const pid of listProcesses(path)) kill(pid);
      removeEmpty(path);
    } catch (error) {
      if (Date.now() > deadlineMs) throw error;
      pause(2);
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

function removeEmpty(path: string): void {
  for (const below of subCgroups(path)) removeEmpty(below);
  rmdirSync(path);
}

function subCgroups(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(path, entry.name));
}

/** Blocking: removal must also work in an exit handler. */
function pause(durationMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, durationMs);
}
