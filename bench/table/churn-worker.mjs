// SPDX-License-Identifier: Apache-2.0
// Runs the pinned program on one CPU for so many seconds.
import { execFileSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { workerData } from 'node:worker_threads';
import { openPinnedProgram } from '../../build/js/sys/native.js';

const { cpu, pin, seconds } = workerData;
const thread = basename(readlinkSync('/proc/thread-self'));
execFileSync('taskset', ['--pid', '--cpu-list', cpu, thread], { stdio: 'ignore' });
const program = openPinnedProgram(pin);
const dataIn = new Uint8Array(64);
const end = performance.now() + 1000 * seconds;
while (performance.now() < end) program.testRun({ dataIn, repeat: 50 });
program.close();
