// SPDX-License-Identifier: Apache-2.0
// A worker that runs a pinned program on one CPU until it has run so often, or for so many seconds. Plain JavaScript: nothing compiles a
// worker.
import { execFileSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { workerData } from 'node:worker_threads';

const { addon, pin, cpu, runs, seconds, dataIn = new Uint8Array(64) } = workerData;
const RUNS_PER_CALL = 10;
const thread = basename(readlinkSync('/proc/thread-self'));
execFileSync('taskset', ['--pid', '--cpu-list', cpu, thread], { stdio: 'ignore' });
const program = createRequire(import.meta.url)(addon).openPinnedProgram(pin);
const end = performance.now() + 1000 * seconds;
for (let run = 0; run < runs && performance.now() < end; run += RUNS_PER_CALL) {
  program.testRun({ dataIn, repeat: RUNS_PER_CALL });
}
program.close();
