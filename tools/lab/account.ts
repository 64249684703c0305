// SPDX-License-Identifier: Apache-2.0
// What a proxy has used so far: CPU of all processes of its cgroup, including exited ones, and memory of its main
// process.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const BYTES_PER_KIB = 1024;

export function cpuSeconds(cgroup: string): number {
  const stat = readFileSync(join(cgroup, 'cpu.stat'), 'utf8');
  return Number(/^usage_usec (\d+)$/m.exec(stat)?.[1]) / 1e6;
}

/** Resident memory: its peak and its current size. */
export function residentBytes(pid: number): { readonly peak: number; readonly now: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const read = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) * BYTES_PER_KIB;
  return { peak: read('VmHWM'), now: read('VmRSS') };
}
