// SPDX-License-Identifier: Apache-2.0
// Stops a program that a test has started, so that it keeps its sockets and answers nobody.
import { readdirSync, readFileSync } from 'node:fs';
import type { Child } from '../../src/sys/exec.ts';
import { until } from './until.ts';

/** SIGSTOP; returns when no thread of it runs any more. SIGCONT resumes it. */
export async function pause(child: Child): Promise<void> {
  child.kill('SIGSTOP');
  await until(() => isPaused(child.pid), `process ${child.pid} to be paused`);
}

/** The signal stops one thread after the other: until then, the others still answer. */
const isPaused = (pid: number): boolean =>
  readdirSync(`/proc/${pid}/task`).every((thread) =>
    /^State:\tT/m.test(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')),
  );
