// SPDX-License-Identifier: Apache-2.0
// Runs one program on two CPUs, with two packets at one moment, many times.
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { BpfProgram } from '../../../../../src/sys/native.ts';
import { meet } from './meet.mjs';

const addon = fileURLToPath(new URL('../../../../../build/native/fairlead.node', import.meta.url));
/** Where other work has the CPUs each round takes milliseconds, and fewer are played. */
const RACE_MS = 20_000;

/** What a program has made of a packet. */
export interface Ran {
  readonly action: number;
  readonly frame: Uint8Array;
}

export interface Racing {
  /** Where the program can be pinned. */
  readonly pin: string;
  /** For the worker: another one than that of this thread. */
  readonly cpu: string;
  /** Of each packet: what the program gets beside it. */
  readonly contextIn?: Uint8Array;
}

/** The packets of each side, as they are after the program. */
export async function race(
  program: BpfProgram,
  mine: readonly Uint8Array[],
  others: readonly Uint8Array[],
  { pin, cpu, contextIn }: Racing,
): Promise<readonly [readonly Ran[], readonly Ran[]]> {
  program.pin(pin);
  const control = new SharedArrayBuffer(8);
  const shared = new Int32Array(control);
  Atomics.store(shared, 1, mine.length);
  const worker = new Worker(new URL('./race-worker.mjs', import.meta.url), {
    workerData: { addon, pin, frames: others, contextIn, control, cpu },
  });
  await once(worker, 'message');
  const posted = once(worker, 'message');
  const until = performance.now() + RACE_MS;
  const left: Ran[] = [];
  while (left.length < mine.length && performance.now() < until) {
    meet(shared, left.length);
    const { retval, dataOut } = program.testRun({
      dataIn: mine[left.length]!,
      ...(contextIn && { contextIn }),
    });
    left.push({ action: retval, frame: dataOut });
  }
  Atomics.store(shared, 1, left.length);
  meet(shared, left.length);
  const [right] = (await posted) as [readonly Ran[]];
  return [left, right];
}
