// SPDX-License-Identifier: Apache-2.0
// A worker that runs a pinned program with its packets on a CPU of its own, each at the moment when the main thread runs the program
// with one of its own, and posts what became of each. Plain JavaScript: nothing compiles a worker.
import { execFileSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { meet } from './meet.mjs';

const { addon, pin, frames, contextIn, control, cpu } = workerData;
const thread = basename(readlinkSync('/proc/thread-self'));
execFileSync('taskset', ['--pid', '--cpu-list', cpu, thread], { stdio: 'ignore' });
const native = createRequire(import.meta.url)(addon);
const program = native.openPinnedProgram(pin);
const shared = new Int32Array(control);
parentPort.postMessage('ready');
const after = [];
for (let round = 0; meet(shared, round); round += 1) {
  const { retval, dataOut } = program.testRun({
    dataIn: frames[round],
    ...(contextIn && { contextIn }),
  });
  after.push({ action: retval, frame: dataOut });
}
program.close();
parentPort.postMessage(after);
