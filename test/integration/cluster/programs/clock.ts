// SPDX-License-Identifier: Apache-2.0
// A fake clock for one program, timers included: faster, slower, or stepped while the program runs. Uses
// libfaketime (Debian package libfaketime), which intercepts the program's C library calls; nothing else on
// the machine is affected.
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../../../src/sys/exec.ts';
import { prepareCluster, type Readiness } from './binaries.ts';
import { ensurePackages } from './packages.ts';

const SHARED_MEMORY = '/dev/shm';

export interface ClockOptions {
  /** Simulated seconds for each real one. */
  readonly speed?: number;
  /** `wall` leaves monotonic time, and so every timer, alone. */
  readonly only?: 'wall';
}

export interface FakeClock {
  /** The command line that runs a program under this clock. */
  readonly runner: readonly string[];
  /** Takes effect now. The change may skip some simulated seconds but never goes back. */
  setSpeed(speed: number): void;
  /** Seconds by which the clock is ahead of the real one, negative if behind. */
  setOffset(seconds: number): void;
  /** Call it only once no program uses the clock. */
  remove(): void;
}

/** As prepareCluster, for tests that need a clock too. */
export async function prepareFaults(): Promise<Readiness> {
  const readiness = await prepareCluster();
  if (!readiness.isReady) return readiness;
  const reason = await ensurePackages(['libfaketime']);
  if (reason === undefined) return readiness;
  process.stderr.write(`\n=== tests with a clock SKIPPED: ${reason}\n\n`);
  return { isReady: false, reason };
}

export async function makeClock({ speed = 1, only }: ClockOptions = {}): Promise<FakeClock> {
  const directory = mkdtempSync(join(tmpdir(), 'fairlead-clock-'));
  const file = join(directory, 'clock');
  // Replaced as a whole: an agent that read an empty file would have the real time for a moment.
  const set = (text: string): void => {
    writeFileSync(`${file}.new`, `${text}\n`);
    renameSync(`${file}.new`, file);
  };
  set(`+0 x${speed}`);
  return {
    runner: [
      'env',
      `LD_PRELOAD=${await libraryPath()}`,
      `FAKETIME_TIMESTAMP_FILE=${file}`,
      'FAKETIME_NO_CACHE=1', // Changes take effect immediately.
      'FAKETIME_XRESET=1', // A new speed applies from now on, not from the start of the program.
      'NO_FAKE_STAT=1',
      ...(only === 'wall' ? ['FAKETIME_DONT_FAKE_MONOTONIC=1'] : []),
    ],
    setSpeed: (next) => set(`+0 x${next}`),
    setOffset: (seconds) => set(`${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}`),
    remove: () => {
      rmSync(directory, { recursive: true, force: true });
      removeLeftovers();
    },
  };
}

/** Shared memory of libfaketime that killed processes leave behind. */
function removeLeftovers(): void {
  for (const name of readdirSync(SHARED_MEMORY)) {
    const pid = /^(?:sem\.)?faketime_(?:shm|sem)_(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`))
      rmSync(join(SHARED_MEMORY, name), { force: true });
  }
}

/** The variant for programs with threads. */
async function libraryPath(): Promise<string> {
  const { stdout } = await run('dpkg', ['-L', 'libfaketime']);
  const path = stdout.split('\n').find((line) => line.endsWith('/libfaketimeMT.so.1'));
  if (path === undefined) throw new Error('package libfaketime has no library for threads');
  return path;
}
