// SPDX-License-Identifier: Apache-2.0
// Who holds the lock that iptables-legacy takes for every command, as far as /proc tells.
import { readFileSync, statSync } from 'node:fs';
import type { LockHolder } from './failure.ts';

/** As iptables itself finds it. */
export const lockFile = (): string => process.env['XTABLES_LOCKFILE'] ?? '/run/xtables.lock';

/** undefined: nobody, or a process outside the PID namespace of the agent. */
export function findLockHolder(path = lockFile(), proc = '/proc'): LockHolder | undefined {
  const inode = statSync(path, { throwIfNoEntry: false })?.ino;
  if (inode === undefined) return undefined;
  const locks = textOf(`${proc}/locks`).split('\n');
  const pid = locks
    .map((line) => /^\d+: FLOCK +\S+ +\S+ (\d+) \S+:(\d+) /.exec(line))
    .find((found) => found !== null && Number(found[2]) === inode)?.[1];
  if (pid === undefined || pid === '0') return undefined;
  const program = textOf(`${proc}/${pid}/comm`).trim();
  return { pid: Number(pid), program: program === '' ? 'a program' : program };
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
