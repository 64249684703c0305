// SPDX-License-Identifier: Apache-2.0
// Settings that keep this process's memory close to what is alive in it: an agent shares its node with those it works for
// (ADR 12). They are made by the program itself, so that it is the same program however it is started.
import { setFlagsFromString } from 'node:v8';
import { releaseProgram, setTrimThreshold } from '../native.ts';

/** Flags that V8 reads whenever it needs them, not only when it makes its heap. */
const V8_FLAGS = [
  // A space for new objects that never grows: 1 MiB, and as much again to copy what survives.
  '--semi-space-growth-factor=1',
  '--heap-growing-percent=35',
  // undici parses HTTP in WebAssembly: to optimize that one function takes 35 MiB. At the start the first flag implies the others.
  ...['--liftoff-only', '--no-wasm-tier-up', '--no-wasm-dynamic-tiering'],
];

/** As glibc has it until the first large block is freed. */
const MALLOC_THRESHOLD_BYTES = 128 * 1024;

/** Call it before anything is loaded: the space for new objects keeps the size that it has by then. */
export function keepHeapSmall(): void {
  for (const flag of V8_FLAGS) setFlagsFromString(flag);
}

/** For a command that computes for seconds and ends: a small space for new objects takes most of its time. */
export function letNewSpaceGrow(): void {
  setFlagsFromString('--semi-space-growth-factor=2');
}

/** Of libraries' memory. */
export const keepMallocSmall = (): void =>
  ifThereIsAnAddon(() => setTrimThreshold(MALLOC_THRESHOLD_BYTES));

/** Of Node's own code a start needs 20 MiB that an agent does not need afterwards. Takes a millisecond. */
export const forgetStart = (): void => ifThereIsAnAddon(releaseProgram);

/** An agent without it ends soon, or has rules only; whoever needs it says so. */
function ifThereIsAnAddon(use: () => void): void {
  try {
    use();
  } catch {
    // Then more memory is used.
  }
}
