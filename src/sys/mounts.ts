// SPDX-License-Identifier: Apache-2.0
// The mounts of this process, from /proc/self/mountinfo.
import { readFileSync } from 'node:fs';

/** One line of mountinfo (proc_pid_mountinfo(5)), the fields we use. */
export interface Mount {
  readonly mountPoint: string;
  /** `bpf`, `cgroup2`, … */
  readonly fsType: string;
  /** Which part of the file system is seen here: '/' unless it is a bind mount or a cgroup namespace. */
  readonly root: string;
  readonly isReadOnly: boolean;
}

/**
 * Parses mountinfo text; malformed lines are skipped. In mount order: of several mounts on one mount point the
 * last is visible.
 *
 * `41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:1 - cgroup2 cgroup2 rw`
 */
export function parseMountInfo(mountInfo: string): Mount[] {
  return mountInfo.split('\n').flatMap((line) => {
    const [left, right] = line.split(' - ');
    const [, , , root, mountPoint, options] = left?.split(' ') ?? [];
    const fsType = right?.split(' ')[0];
    if (root === undefined || mountPoint === undefined || fsType === undefined) return [];
    const isReadOnly = options?.split(',').includes('ro') ?? false;
    return [
      { mountPoint: unescapeOctal(mountPoint), fsType, root: unescapeOctal(root), isReadOnly },
    ];
  });
}

/** The kernel writes space, tab, newline and backslash as \040 and the like. */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

export function readMounts(): Mount[] {
  return parseMountInfo(readFileSync('/proc/self/mountinfo', 'utf8'));
}

/** True if the mount seen at exactly this path is a BPF file system. */
export function isBpffs(path: string, mounts: readonly Mount[] = readMounts()): boolean {
  return mounts.findLast((mount) => mount.mountPoint === path)?.fsType === 'bpf';
}
