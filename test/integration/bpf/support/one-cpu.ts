// SPDX-License-Identifier: Apache-2.0
// What the programs count on each CPU apart is the same from run to run only on one CPU.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll } from 'vitest';

/** The CPUs this process may run on, as in `0-3,6`. */
function allowedCpus(): string {
  const [, list] =
    /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  if (list === undefined) throw new Error('/proc/self/status has no Cpus_allowed_list');
  return list;
}

/** Test runs happen on the CPU of the thread that asks for them, which is the main one. */
function runOn(cpus: string): void {
  execFileSync('taskset', ['--pid', '--cpu-list', cpus, String(process.pid)], { stdio: 'ignore' });
}

/**
 * All programs that the tests of this file run, run on one CPU.
 * @returns another one, for a second thread; undefined: there is none
 */
export function onOneCpu(): string | undefined {
  const allowed = allowedCpus();
  const [first = '0', ...others] = allowed.split(/[-,]/);
  beforeAll(() => runOn(first));
  afterAll(() => runOn(allowed));
  return others.at(-1);
}
