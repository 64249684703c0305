// SPDX-License-Identifier: Apache-2.0
// Preloaded into fairlead: remembers the longest time between two turns of its event loop. On SIGUSR2 it
// appends that to a file, in nanoseconds, and begins anew, or pauses where a second file says so. The timer is libuv's:
// 100 wake-ups a second and no JavaScript, 6 ms of CPU, which is much beside a change every 1.3 s.
import { appendFileSync, existsSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const file = process.env.FAIRLEAD_BENCH_STALLS;
const delay = monitorEventLoopDelay({ resolution: 10 });
delay.enable();
process.on('SIGUSR2', () => {
  // A signal may overtake the timer of a stall that just ended: the timer gets a turn first.
  setTimeout(() => {
    appendFileSync(file, `${delay.max}\n`);
    delay.reset();
    if (existsSync(`${file}.paused`)) delay.disable();
    else delay.enable();
  }, 30);
});
