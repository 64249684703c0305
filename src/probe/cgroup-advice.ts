// SPDX-License-Identifier: Apache-2.0
// Explains why this process sees no cgroup v2 hierarchy and how to fix it. `ip netns exec` mounts a new /sys
// in its own mount namespace, which hides a hierarchy that is mounted on the machine.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Mount, parseMountInfo } from '../sys/mounts.ts';

const ELSEWHERE = '/run/fairlead-cgroup2';
const MOUNT_ELSEWHERE = `mkdir -p ${ELSEWHERE} && mount -t cgroup2 none ${ELSEWHERE}`;

/** @param initMounts mounts as process 1 sees them; undefined if they cannot be read */
export function cgroup2Advice(
  initMounts: readonly Mount[] | undefined,
  namespace: string | undefined,
): string {
  const isHidden = initMounts?.some(({ fsType }) => fsType === 'cgroup2') ?? false;
  if (!isHidden) {
    return `no cgroup v2 hierarchy is mounted: \`${MOUNT_ELSEWHERE}\` (it may be mounted alongside v1)`;
  }
  const enter = `nsenter --net=/run/netns/${namespace ?? 'NAME'} fairlead run …`;
  return `no cgroup v2 hierarchy is mounted in this mount namespace, though the machine has one: \`ip netns exec\` replaces /sys; use \`${enter}\` instead, or mount it elsewhere: \`${MOUNT_ELSEWHERE}\``;
}

/** Undefined without permission to read the mounts of process 1. */
export function readInitMounts(): readonly Mount[] | undefined {
  try {
    return parseMountInfo(readFileSync('/proc/1/mountinfo', 'utf8'));
  } catch {
    return undefined;
  }
}

/** The name of this process's network namespace in ip(8). */
export function namespaceName(folder = '/run/netns'): string | undefined {
  try {
    const own = statSync('/proc/self/ns/net').ino;
    // One that is deleted after the folder was read has no inode.
    const inodeOf = (name: string) => statSync(join(folder, name), { throwIfNoEntry: false })?.ino;
    return readdirSync(folder).find((name) => inodeOf(name) === own);
  } catch {
    return undefined;
  }
}
