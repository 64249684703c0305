// SPDX-License-Identifier: Apache-2.0
// Records which process owns a topology. A record is written before the first namespace is created and removed
// after the last is deleted; the record of a dead process names leftovers to remove. Nothing without a record
// is touched. Records are in /run, which only root can write.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { removeCgroup } from '../../src/sys/cgroup.ts';
import { readMounts } from '../../src/sys/mounts.ts';
import { deleteNamespaces, listNamespaces } from '../../src/sys/netns.ts';
import { unmountBelow } from './mounting.ts';

const RECORDS_DIRECTORY = '/run/fairlead-demo';
const KEPT_FILE = 'kept';
const PREFIX_PATTERN = /^fl[0-9a-z]{6}$/;

export interface Ownership {
  /** First part of every name this topology gives: `flab12cd`. */
  readonly prefix: string;
  /** Where its files, sockets and mounts live. */
  readonly directory: string;
  /** Where all its processes run. */
  readonly cgroup: string;
  readonly pid: number;
  /** When the owner started, in clock ticks since boot: the process id alone may belong to another process by now. */
  readonly startTicks: string;
}

/** Reserves a new prefix for this process, and records that it owns it. `cgroupMount` is where the topology's cgroup will be. */
export function recordOwnership(cgroupMount: string): Ownership {
  const random = Math.floor(Math.random() * 36 ** 6);
  const prefix = `fl${random.toString(36).padStart(6, '0')}`;
  const directory = join(RECORDS_DIRECTORY, prefix);
  const { pid } = process;
  const startTicks = readStartTicks(pid) ?? '';
  const ownership = { prefix, directory, cgroup: join(cgroupMount, prefix), pid, startTicks };
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  writeFileSync(recordPath(directory), JSON.stringify(ownership));
  return ownership;
}

/**
 * Removes everything a topology has: processes, cgroups, mounts, namespaces, files. Blocking, and may be
 * repeated. If a part cannot be removed, the rest is, the record is kept, and it throws.
 */
export function removeOwned({ prefix, directory, cgroup }: Ownership): void {
  const failures: unknown[] = [];
  const attempt = (step: () => void): void => {
    try {
      step();
    } catch (error) {
      failures.push(error);
    }
  };
  for (const path of [cgroup, ...cgroupsOfV1(prefix)]) attempt(() => removeCgroup(path));
  attempt(() => unmountBelow(directory));
  attempt(() => deleteNamespaces(ownNamespaces(prefix)));
  if (failures.length === 0) attempt(() => rmSync(directory, { recursive: true, force: true }));
  if (failures.length > 0) throw new AggregateError(failures, `cannot remove all of ${prefix}`);
}

/** Containers have a cgroup in each hierarchy of version 1, too, where a system has these. */
function cgroupsOfV1(prefix: string): string[] {
  const hierarchies = readMounts().filter(({ fsType }) => fsType === 'cgroup');
  return hierarchies.map(({ mountPoint }) => join(mountPoint, prefix));
}

export function ownNamespaces(prefix: string): string[] {
  return listNamespaces().filter((name) => name.startsWith(`${prefix}-`));
}

/** Removes what crashed runs have left, and returns their prefixes. */
export function removeLeftovers(): string[] {
  const dead = records().filter(({ pid, startTicks }) => readStartTicks(pid) !== startTicks);
  for (const record of dead) removeDead(record);
  return dead.map(({ prefix }) => prefix);
}

/** Another run may be removing the same: what it has removed meanwhile is missed once, not twice. */
function removeDead(record: Ownership): void {
  try {
    removeOwned(record);
  } catch {
    if (existsSync(record.directory)) removeOwned(record);
  }
}

/** Records that the owner keeps it until told to remove it: see `removeKept`. */
export function markKept({ directory }: Pick<Ownership, 'directory'>): void {
  writeFileSync(join(directory, KEPT_FILE), '');
}

/** Asks the owners of kept topologies to remove them, and returns their prefixes once they have. */
export async function removeKept(timeoutMs = 120_000): Promise<string[]> {
  const kept = records().filter(({ directory }) => existsSync(join(directory, KEPT_FILE)));
  for (const { pid, startTicks } of kept) {
    if (readStartTicks(pid) === startTicks) process.kill(pid, 'SIGTERM');
  }
  const deadlineMs = Date.now() + timeoutMs;
  while (
    kept.some(
      ({ directory, pid, startTicks }) =>
        existsSync(directory) && readStartTicks(pid) === startTicks,
    )
  ) {
    if (Date.now() > deadlineMs)
      throw new Error(
        `still there after ${timeoutMs / 1000} s: ${kept.map(({ prefix }) => prefix).join(', ')}`,
      );
    await delay(20);
  }
  removeLeftovers();
  return kept.map(({ prefix }) => prefix);
}

function recordPath(directory: string): string {
  return join(directory, 'owner.json');
}

function records(): readonly Ownership[] {
  if (!existsSync(RECORDS_DIRECTORY)) return [];
  return readdirSync(RECORDS_DIRECTORY)
    .map((name) => readRecord(join(RECORDS_DIRECTORY, name)))
    .filter((record) => record !== undefined);
}

/** A record is valid only if it is what this code would have written. */
function readRecord(directory: string): Ownership | undefined {
  try {
    const record: Ownership = JSON.parse(readFileSync(recordPath(directory), 'utf8'));
    const isOurs =
      PREFIX_PATTERN.test(record.prefix) &&
      record.directory === directory &&
      basename(record.directory) === record.prefix &&
      basename(record.cgroup) === record.prefix;
    return isOurs ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Field 22 of proc_pid_stat(5); the command name before it may hold spaces and parentheses. */
function readStartTicks(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
