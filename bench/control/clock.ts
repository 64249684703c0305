// SPDX-License-Identifier: Apache-2.0
// One clock for all programs of a run: CLOCK_MONOTONIC, which is the same in every process and namespace
// of a machine.
import { setTimeout as delay } from 'node:timers/promises';

const NS_PER_MS = 1e6;

export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / NS_PER_MS;
}

/** What a program in C printed. */
export function fromNanoseconds(text: string): number {
  return Number(text) / NS_PER_MS;
}

/** For measurements that must let time pass; never used to wait for a condition. */
export async function letPass(ms: number): Promise<void> {
  await delay(ms);
}
