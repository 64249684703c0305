// SPDX-License-Identifier: Apache-2.0
// The lock on the rules of a network namespace as a file that only root can open: flock(2), which the kernel releases
// when the process ends, also after SIGKILL. The inode of the namespace is in its name, its holder in its text.
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DEFAULT_RUN_DIR } from '../../../config/instance-paths.ts';
import { isOutOfSpace } from '../../../errors.ts';
import * as native from '../../../sys/native.ts';

export interface HeldFile {
  /** Idempotent. */
  close(): void;
}

/** `held`: by another process; `unusable`: there can be no such file here, as on a read-only file system. */
export type LockedFile = HeldFile | 'held' | 'unusable';

/** Of this process. */
const own = new Set<string>();

/** The same for all instances, and for containers that mount the node's folder. */
export const lockPath = (folder = DEFAULT_RUN_DIR): string =>
  join(folder, `iptables-${statSync('/proc/self/ns/net').ino}.lock`);

export function lockFile(path: string, text: string): LockedFile {
  for (;;) {
    const fd = openLock(path);
    if (fd === undefined) return 'unusable';
    if (!native.lockExclusively(fd)) {
      closeSync(fd);
      return 'held';
    }
    if (!isFile(fd, path)) {
      closeSync(fd); // Its holder has removed it meanwhile.
      continue;
    }
    writeHolder(fd, text);
    own.add(path);
    return { close: () => unlock(path, fd) };
  }
}

/** For people: on a full file system the lock is held all the same. */
function writeHolder(fd: number, text: string): void {
  ftruncateSync(fd);
  try {
    writeSync(fd, text);
  } catch (error) {
    if (!isOutOfSpace(error)) throw error;
  }
}

/** Leaves the file as it is. */
export function isFileHeldElsewhere(path: string): boolean {
  const fd = own.has(path) ? undefined : openIfThere(path);
  if (fd === undefined) return false;
  try {
    return !native.lockExclusively(fd);
  } finally {
    closeSync(fd);
  }
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch {
    return undefined;
  }
}

export function holderIn(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8') || undefined;
  } catch {
    return undefined;
  }
}

function unlock(path: string, fd: number): void {
  if (!own.delete(path)) return;
  rmSync(path, { force: true });
  closeSync(fd);
}

function openLock(path: string): number | undefined {
  const folder = dirname(path);
  try {
    // Not recursively, which never ends below /proc.
    if (statSync(folder, { throwIfNoEntry: false }) === undefined) mkdirSync(folder);
    return openSync(path, 'a+', 0o600);
  } catch {
    return undefined;
  }
}

function isFile(fd: number, path: string): boolean {
  const held = fstatSync(fd, { bigint: true });
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found !== undefined && found.ino === held.ino && found.dev === held.dev;
}
