// SPDX-License-Identifier: Apache-2.0
// The bpf file system that holds the pins.
import { accessSync, constants, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { FairleadError } from '../../../../errors.ts';
import * as native from '../../../../sys/native.ts';

const BPFFS_MAGIC = 0xcafe4a11;
const DEFAULT_MOUNT = '/sys/fs/bpf';

/** Throws NO_BPFFS if no pins can be made at bpfRoot; the customary /sys/fs/bpf is mounted if it is not. */
export function ensureBpffs(bpfRoot: string): void {
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
