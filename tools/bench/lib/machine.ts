// SPDX-License-Identifier: Apache-2.0
// The machine of a run, without which its figures mean nothing.
import { cpus, loadavg, release } from 'node:os';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly kernel: string;
  readonly node: string;
  /** Load average of the minute before the run: above one, other programs disturbed it. */
  readonly loadBefore: number;
}

export function thisMachine(): Machine {
  const cores = cpus();
  return {
    cpu: cores[0]?.model.trim() ?? 'unknown',
    cores: cores.length,
    kernel: release(),
    node: process.version,
    loadBefore: loadavg()[0] ?? 0,
  };
}

export const today = (): string => new Date().toISOString().slice(0, 10);
