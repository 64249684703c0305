// SPDX-License-Identifier: Apache-2.0
// Network namespaces by name: make, wire, enter, delete. All changes go through ip(8) in batches, one
// process for many lines, because a fork per line is what makes a topology slow.
// Floor 3: knows no pods; never touches an interface of the namespace it runs in.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run, runSync } from './exec.ts';

const NETNS_DIRECTORY = '/run/netns';

/** Runs lines of ip(8), inside a namespace if one is named. Throws with the line that failed. */
export async function ipBatch(lines: readonly string[], namespace?: string): Promise<void> {
  if (lines.length === 0) return;
  const where = namespace === undefined ? [] : ['-n', namespace];
  const { code, stderr } = await run('ip', [...where, '-batch', '-'], { stdin: lines.join('\n') });
  if (code === 0) return;
  const failedLine = lines[Number(/Command failed -:(\d+)/.exec(stderr)?.[1] ?? 0) - 1];
  throw new Error(`ip ${[...where, failedLine ?? '-batch'].join(' ')}: ${stderr.trim()}`);
}

export async function addNamespaces(names: readonly string[]): Promise<void> {
  await ipBatch(names.map((name) => `netns add ${name}`));
}

/** Deletes those that exist, with the interfaces inside them. Blocking: exit handlers use it. */
export function deleteNamespaces(names: readonly string[]): void {
  const existing = new Set(listNamespaces());
  const lines = names.filter((name) => existing.has(name)).map((name) => `netns del ${name}`);
  if (lines.length > 0) runSync('ip', ['-force', '-batch', '-'], { stdin: lines.join('\n') });
}

export function listNamespaces(): string[] {
  try {
    return readdirSync(NETNS_DIRECTORY).sort();
  } catch {
    return []; // ip(8) makes the directory with the first namespace.
  }
}

/**
 * Arguments that run `argv` inside a namespace. Not `ip netns exec`: that mounts a fresh /sys in a mount
 * namespace of its own, and the cgroup file system is no longer where everybody else sees it.
 */
export function insideNamespace(name: string, argv: readonly string[]): string[] {
  return ['nsenter', `--net=${join(NETNS_DIRECTORY, name)}`, '--', ...argv];
}

/** Writes `net.*` settings, which belong to the namespace of whoever writes them. */
export async function writeSysctls(
  name: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const assignments = Object.entries(settings).flat();
  const script = 'while [ $# -gt 1 ]; do echo "$2" > "/proc/sys/$1" || exit 1; shift 2; done';
  const [program, ...args] = insideNamespace(name, ['sh', '-c', script, 'sh', ...assignments]);
  const { code, stderr } = await run(program ?? '', args);
  if (code !== 0) throw new Error(`sysctl in namespace ${name}: ${stderr.trim()}`);
}
