// SPDX-License-Identifier: Apache-2.0
// Applies the kernel settings that src/config/sysctls.ts computed. Only in the initial network namespace or
// with `--init-only`: the settings are machine-wide or belong to the network namespace of the process.
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { OOM_SCORE_PATH, type SysctlWrite } from '../../config/sysctls.ts';
import { reasonOf } from '../../errors.ts';
import type { Problem } from '../../model/problem.ts';

export interface SysctlResult {
  readonly path: string;
  readonly value: number;
  /** kept: already the value, or larger where that suffices; missing: the kernel does not have the setting. */
  readonly outcome: 'written' | 'kept' | 'missing' | 'failed';
  /** The previous value. */
  readonly was?: number;
  /** For missing and failed: the cause and what to do. */
  readonly reason?: string;
}

/** Never throws; one result per write, in order. @param root of the file system, for tests */
export function applySysctls(writes: readonly SysctlWrite[], root = '/'): readonly SysctlResult[] {
  return writes.map((write) => applyOne(write, root));
}

function applyOne({ path, value, rule }: SysctlWrite, root: string): SysctlResult {
  const file = join(root, path);
  let was: number | undefined;
  try {
    was = Number(readFileSync(file, 'utf8').trim());
    const isFine = rule === 'raise' ? was >= value : was === value;
    if (isFine) return { path, value, outcome: 'kept', was };
    // r+ does not create the file: if it has disappeared, so has the setting.
    writeFileSync(file, `${value}\n`, { flag: 'r+' });
    return { path, value, outcome: 'written', was };
  } catch (error) {
    const seen = was === undefined ? {} : { was };
    return { path, value, ...seen, ...failureOf(path, error) };
  }
}

/** A setting that was not written, as `status` shows it. */
export const settingProblem = ({ path, value, was, reason = '' }: SysctlResult): Problem => ({
  field: path.replace(/^proc\/sys\//, '').replaceAll('/', '.'),
  reason: `${was === undefined ? 'not' : `${was}, not`} set to ${value}: ${reason}`,
  isWarning: true,
});

/** Outcome and advice for a setting that could not be written. */
export function failureOf(
  path: string,
  error: unknown,
): Required<Pick<SysctlResult, 'outcome' | 'reason'>> {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT') {
    const isConntrack = path.includes('nf_conntrack');
    const reason = isConntrack
      ? 'nf_conntrack is not loaded: load it first, or set conntrack.maxPerCore to 0 to skip it'
      : 'this kernel has no such setting';
    return { outcome: 'missing', reason };
  }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    const reason =
      path === OOM_SCORE_PATH
        ? 'lowering it requires CAP_SYS_RESOURCE; in a cluster the kubelet sets it according to the priority class'
        : 'not writable: run once with --init-only as full root on the host, or set it on the node';
    return { outcome: 'failed', reason };
  }
  return { outcome: 'failed', reason: reasonOf(error) };
}

/** CPUs of the machine that are online, not those available to this process: the conntrack table is machine-wide. */
export function countCpus(root = '/'): number {
  try {
    const count = lengthOf(readFileSync(join(root, 'sys/devices/system/cpu/online'), 'utf8'));
    return count > 0 ? count : availableParallelism();
  } catch {
    return availableParallelism();
  }
}

/** Of a list as the kernel writes it: `0-3,5` has five. NaN if it is none. */
const lengthOf = (list: string): number =>
  list
    .trim()
    .split(',')
    .map((range) => range.split('-').map(Number))
    .reduce((sum, [first = Number.NaN, last = first]) => sum + last - first + 1, 0);
