// SPDX-License-Identifier: Apache-2.0
// How many files this process may have open at a time.
import { readFileSync } from 'node:fs';
import { run } from '../exec.ts';

/** Where it cannot be told, or is no number: the most of a process of macOS. */
const USUAL = 10_240;

/** RLIMIT_NOFILE; Node has raised the soft limit to the hard one. */
export async function limitOfFiles(): Promise<number> {
  const text = linuxLimit() ?? (await run('sh', ['-c', 'ulimit -n'])).stdout.trim();
  return /^\d+$/.test(text) ? Number(text) : USUAL;
}

function linuxLimit(): string | undefined {
  try {
    return /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  } catch {
    return undefined; // Another system, or /proc is hidden.
  }
}
