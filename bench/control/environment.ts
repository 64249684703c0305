// SPDX-License-Identifier: Apache-2.0
// The machine and the commit of a run, without which its figures mean nothing.
import { cpus, loadavg, release } from 'node:os';
import { run } from '../../src/sys/exec.ts';
import { packageRoot } from '../../src/sys/package.ts';
import type { Report } from './report/figures.ts';

export async function environment(): Promise<
  Pick<Report, 'date' | 'commit' | 'hasUncommittedChanges' | 'machine'>
> {
  const git = async (...args: readonly string[]): Promise<string> =>
    (await run('git', ['-C', packageRoot(), ...args])).stdout.trim();
  const cores = cpus();
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: await git('rev-parse', '--short', 'HEAD'),
    hasUncommittedChanges:
      (await git('status', '--porcelain', '--', 'src', 'bpf', 'native')) !== '',
    machine: {
      cpu: cores[0]?.model ?? 'unknown',
      cores: cores.length,
      kernel: release(),
      node: process.version,
      loadBefore: loadavg()[0] ?? 0,
    },
  };
}
