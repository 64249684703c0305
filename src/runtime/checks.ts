// SPDX-License-Identifier: Apache-2.0
// What this machine must have before anything is attached: each lack is one clear line. Tested by
// looking and doing, never by a version string alone. Floor 5.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { release } from 'node:os';
import { relative, sep } from 'node:path';
import { FairleadError } from '../errors.ts';
import { findCgroup2 } from '../sys/cgroup.ts';
import { readMounts } from '../sys/mounts.ts';
import { fileSystemType } from '../sys/native.ts';

const CGROUP2_MAGIC = 0x63677270;
/** Below this the hooks the socket layer needs do not all exist. */
const OLDEST_KERNEL = [5, 10] as const;

export interface CgroupRoot {
  readonly path: string;
  /** Depth below the hierarchy's root. */
  readonly level: number;
}

export function checkKernel(
  kernelRelease = release(),
  hasBtf = existsSync('/sys/kernel/btf/vmlinux'),
): void {
  const [major = 0, minor = 0] = kernelRelease.split('.').map((part) => Number.parseInt(part, 10));
  const [oldestMajor, oldestMinor] = OLDEST_KERNEL;
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new FairleadError(
      'OLD_KERNEL',
      `Linux ${kernelRelease} is older than ${OLDEST_KERNEL.join('.')}, which the socket layer needs: boot a newer kernel, or keep kube-proxy on this node`,
    );
  }
  if (!hasBtf) {
    throw new FairleadError(
      'NO_BTF',
      'this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF): its maps could not be typed; boot a distribution kernel',
    );
  }
}

/** @param asked --cgroup-root; undefined = the root of the cgroup v2 hierarchy */
export function checkCgroupRoot(asked: string | undefined): CgroupRoot {
  const mounts = readMounts();
  const hierarchy = findCgroup2(mounts);
  if (hierarchy === undefined) {
    throw new FairleadError(
      'NO_CGROUP2',
      'no cgroup v2 hierarchy is mounted: `mount -t cgroup2 none /sys/fs/cgroup/unified` (it may stand beside v1)',
    );
  }
  const path = asked ?? hierarchy;
  if (
    !existsSync(path) ||
    !statSync(path).isDirectory() ||
    fileSystemType(path) !== CGROUP2_MAGIC
  ) {
    throw new FairleadError(
      'NOT_CGROUP2',
      `--cgroup-root ${path} is not a directory of a cgroup v2 hierarchy: this machine has one at ${hierarchy}`,
    );
  }
  const mountPoint =
    mounts
      .filter(
        ({ fsType, mountPoint: at }) =>
          fsType === 'cgroup2' && (path === at || path.startsWith(`${at}${sep}`)),
      )
      .map(({ mountPoint: at }) => at)
      .sort((a, b) => b.length - a.length)[0] ?? hierarchy;
  const below = relative(mountPoint, path);
  return { path, level: below === '' ? 0 : below.split(sep).length };
}

export function checkRunDir(runDir: string): void {
  try {
    mkdirSync(runDir, { recursive: true });
  } catch (error) {
    throw new FairleadError(
      'BAD_OPTION',
      `--run-dir ${runDir} cannot be made: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
