// SPDX-License-Identifier: Apache-2.0
// One writer for the pins of a --bpf-root: flock(2) on the folder. The kernel releases it when the process
// ends, also after SIGKILL. The holder is recorded beside the pins as the target of a symbolic link, because
// a bpf file system stores no other text; the record is valid only while the lock is held.

import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { FairleadError } from '../../../../errors.ts';
import * as native from '../../../../sys/native.ts';
import { removeEmptyFolders } from './pins.ts';

/** The holder of the pins, for the error that another process gets. */
export interface PinHolder {
  /** `agent` or `cleanup`. */
  readonly command: string;
  readonly nodeName?: string;
  readonly runDir: string;
}

export interface PinLock {
  /** A process that inherits this descriptor holds the lock too. */
  readonly fd: number;
  /** Removes bpfRoot if only empty folders are left in it, before another process can lock it. */
  removeEmptyFolders(): void;
  /** Idempotent. */
  close(): void;
}

const HOLDER = 'holder';

/** Locks the pins below bpfRoot, which is created if missing. Throws NO_BPFFS, BPF_ROOT_IN_USE. */
export function lockPins(bpfRoot: string, holder: PinHolder): PinLock {
  ensureBpffs(bpfRoot);
  for (;;) {
    mkdirSync(bpfRoot, { recursive: true });
    const lock = tryLock(bpfRoot, holder);
    if (lock !== undefined) return lock;
  }
}

/** The same without creating the folder: undefined if it is missing, as nothing is pinned there. */
export function lockExistingPins(bpfRoot: string, holder: PinHolder): PinLock | undefined {
  while (existsSync(bpfRoot)) {
    const lock = tryLock(bpfRoot, holder);
    if (lock !== undefined) return lock;
  }
  return undefined;
}

/** Undefined if the folder was removed meanwhile: the locked inode is then no longer in use. */
function tryLock(bpfRoot: string, holder: PinHolder): PinLock | undefined {
  const fd = openFolder(bpfRoot);
  if (fd === undefined) return undefined;
  try {
    if (!native.lockExclusively(fd)) throw inUse(bpfRoot);
    if (!isSameFolder(fd, bpfRoot)) {
      closeSync(fd);
      return undefined;
    }
    removeHolder(bpfRoot);
    symlinkSync(describe(holder), join(bpfRoot, HOLDER));
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  let isHeld = true;
  return {
    fd,
    removeEmptyFolders() {
      removeHolder(bpfRoot);
      removeEmptyFolders(bpfRoot);
    },
    close() {
      if (!isHeld) return;
      isHeld = false;
      removeHolder(bpfRoot);
      closeSync(fd);
    },
  };
}

function openFolder(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function isSameFolder(fd: number, path: string): boolean {
  const held = fstatSync(fd, { bigint: true });
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found !== undefined && found.ino === held.ino && found.dev === held.dev;
}

function removeHolder(bpfRoot: string): void {
  try {
    unlinkSync(join(bpfRoot, HOLDER));
  } catch {
    // There was none, or the folder is gone.
  }
}

function describe({ command, nodeName, runDir }: PinHolder): string {
  const node = nodeName === undefined ? '' : `, node ${nodeName}`;
  return `${command} with pid ${process.pid}${node}, --run-dir ${runDir}`;
}

function inUse(bpfRoot: string): FairleadError {
  let holder: string;
  try {
    holder = readlinkSync(join(bpfRoot, HOLDER));
  } catch {
    holder = `a process that \`fuser ${bpfRoot}\` names`;
  }
  return new FairleadError(
    'BPF_ROOT_IN_USE',
    `--bpf-root ${bpfRoot} is in use by another fairlead (${holder}): stop it, or give this instance its own --bpf-root`,
  );
}

const BPFFS_MAGIC = 0xcafe4a11;
const DEFAULT_MOUNT = '/sys/fs/bpf';

/** Throws NO_BPFFS if no pins can be made at bpfRoot; the customary /sys/fs/bpf is mounted if it is not. */
function ensureBpffs(bpfRoot: string): void {
  let nearest = bpfRoot;
  while (!existsSync(nearest)) nearest = dirname(nearest);
  if (native.fileSystemType(nearest) === BPFFS_MAGIC) {
    checkWritable(nearest);
    return;
  }
  const isDefault = bpfRoot === DEFAULT_MOUNT || bpfRoot.startsWith(`${DEFAULT_MOUNT}/`);
  if (isDefault && existsSync(DEFAULT_MOUNT)) {
    mountDefault();
    return;
  }
  throw new FairleadError(
    'NO_BPFFS',
    `--bpf-root ${bpfRoot} is not on a bpf file system: mount one with \`mount -t bpf bpf ${dirname(bpfRoot)}\`, or use a folder below ${DEFAULT_MOUNT}`,
  );
}

/** In a container that takes a capability that an agent has no other use for. */
function mountDefault(): void {
  try {
    native.mountBpffs(DEFAULT_MOUNT);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EPERM')) throw error;
    throw new FairleadError(
      'NO_BPFFS',
      `no bpf file system is mounted at ${DEFAULT_MOUNT}, and this process may not mount one: run \`mount -t bpf bpf ${DEFAULT_MOUNT}\` on the node, and mount that folder into the container`,
    );
  }
}

/** Checked on the folder itself: Node reports mkdir(2) on a read-only file system as ENOENT. */
function checkWritable(folder: string): void {
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EROFS')) throw error;
    throw new FairleadError(
      'NO_BPFFS',
      `the bpf file system at ${folder} is mounted read-only: run \`mount -o remount,rw\` on it, or use another --bpf-root`,
    );
  }
}
