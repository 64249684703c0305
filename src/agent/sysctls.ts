// SPDX-License-Identifier: Apache-2.0
// Brings kernel settings to the values that src/config/sysctls.ts computed. Only for the initial network
// namespace, or `--init-only`: the files are machine-wide or namespaced by where the process runs.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { OOM_SCORE_PATH, type SysctlWrite } from '../config/sysctls.ts';
import { reasonOf } from '../errors.ts';

export interface SysctlResult {
  readonly path: string;
  readonly value: number;
  /** kept = it was so, or larger where that is enough; missing = the kernel has no such setting now. */
  readonly outcome: 'written' | 'kept' | 'missing' | 'failed';
  /** What it was before. */
  readonly was?: number;
  /** For missing and failed: why, and what to do. */
  readonly reason?: string;
}

/** Never throws; one result a write, in their order. @param root of the file system, for tests */
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
    // Never creates: a file that is gone by now is a setting that is gone.
    writeFileSync(file, `${value}\n`, { flag: 'r+' });
    return { path, value, outcome: 'written', was };
  } catch (error) {
    const seen = was === undefined ? {} : { was };
    return { path, value, ...seen, ...whyNot(path, error) };
  }
}

/** What a refusal means for the setting, and what a person can do. */
export function whyNot(
  path: string,
  error: unknown,
): Required<Pick<SysctlResult, 'outcome' | 'reason'>> {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT') {
    const isConntrack = path.includes('nf_conntrack');
    const reason = isConntrack
      ? 'nf_conntrack is not loaded: load it before, or leave it alone with conntrack.maxPerCore 0'
      : 'this kernel has no such setting';
    return { outcome: 'missing', reason };
  }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    const reason =
      path === OOM_SCORE_PATH
        ? 'lowering it takes CAP_SYS_RESOURCE; in a cluster the kubelet sets it, by the priority class'
        : 'not writable: run once with --init-only and full root on the host, or set it on the node';
    return { outcome: 'failed', reason };
  }
  return { outcome: 'failed', reason: reasonOf(error) };
}

/** CPUs the machine has, not those this process may use: the connection table is the machine's. */
export function countCpus(root = '/'): number {
  try {
    const names = readdirSync(join(root, 'sys/devices/system/cpu'));
    const count = names.filter((name) => /^cpu\d+$/.test(name)).length;
    return count > 0 ? count : availableParallelism();
  } catch {
    return availableParallelism();
  }
}
