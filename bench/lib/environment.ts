// SPDX-License-Identifier: Apache-2.0
// The machine and the commit of a run.
import { run } from '../../src/sys/exec.ts';
import { packageRoot } from '../../src/sys/package.ts';
import { type Machine, thisMachine, today } from '../../tools/bench/lib/machine.ts';

export interface Environment {
  readonly date: string;
  readonly commit: string;
  readonly hasUncommittedChanges: boolean;
  readonly machine: Machine;
}

export async function environment(): Promise<Environment> {
  const git = async (...args: readonly string[]): Promise<string> =>
    (await run('git', ['-C', packageRoot(), ...args])).stdout.trim();
  return {
    date: today(),
    commit: await git('rev-parse', '--short', 'HEAD'),
    hasUncommittedChanges:
      (await git('status', '--porcelain', '--', 'src', 'bpf', 'native')) !== '',
    machine: thisMachine(),
  };
}

/** `2026-01-31, commit 0123456 with uncommitted changes; 2 × Xeon, Linux 6.1.0` */
export function whereText({ date, commit, hasUncommittedChanges, machine }: Environment): string {
  const state = hasUncommittedChanges ? ' with uncommitted changes' : '';
  return `${date}, commit ${commit}${state}; ${machine.cores} × ${machine.cpu}, Linux ${machine.kernel}`;
}
