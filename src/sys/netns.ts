// SPDX-License-Identifier: Apache-2.0
// Creates, configures, enters and deletes network namespaces by name, with ip(8) in batches: one process for many
// lines. Never changes an interface of the namespace it runs in.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type RunResult, run, runSync } from './exec.ts';

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

/**
 * Blocking, so that no exit handler runs while ip(8) is still creating namespaces. Interfaces inside them are
 * deleted with them.
 */
export function addNamespaces(names: readonly string[]): void {
  const { code, stderr } = namespaceBatch(names.map((name) => `netns add ${name}`));
  if (code !== 0) throw new Error(`cannot make network namespaces: ${stderr.trim()}`);
}

/** Deletes those that exist, with the interfaces inside them. Blocking; throws if one cannot be deleted. */
export function deleteNamespaces(names: readonly string[]): void {
  const existing = names.filter((name) => listNamespaces().includes(name));
  if (existing.length === 0) return;
  const { stderr } = namespaceBatch(existing.map((name) => `netns del ${name}`));
  const left = existing.filter((name) => listNamespaces().includes(name));
  if (left.length > 0) throw new Error(`cannot delete ${left.join(', ')}: ${stderr.trim()}`);
}

function namespaceBatch(lines: readonly string[]): RunResult {
  return runSync('ip', ['-force', '-batch', '-'], { stdin: lines.join('\n') });
}

export function listNamespaces(): string[] {
  try {
    return readdirSync(NETNS_DIRECTORY).sort();
  } catch {
    return []; // ip(8) makes the directory with the first namespace.
  }
}

/**
 * Arguments that run `argv` inside a namespace. Not `ip netns exec`, which mounts a new /sys in its own mount
 * namespace and so hides the cgroup file system.
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
