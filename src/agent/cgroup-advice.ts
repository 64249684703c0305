// SPDX-License-Identifier: Apache-2.0
// Why this process sees no cgroup v2 hierarchy, and what helps. `ip netns exec` mounts a fresh /sys in a
// mount namespace of its own: the hierarchy is mounted on the machine, and hidden from what it starts.
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
    return `no cgroup v2 hierarchy is mounted: \`${MOUNT_ELSEWHERE}\` (it may be mounted beside v1)`;
  }
  const enter = `nsenter --net=/run/netns/${namespace ?? 'NAME'} fairlead run …`;
  return `no cgroup v2 hierarchy is mounted in this mount namespace, though the machine has one: \`ip netns exec\` replaces /sys; use \`${enter}\` instead, or mount it elsewhere: \`${MOUNT_ELSEWHERE}\``;
}

/** Undefined without the right to look at process 1. */
export function readInitMounts(): readonly Mount[] | undefined {
  try {
    return parseMountInfo(readFileSync('/proc/1/mountinfo', 'utf8'));
  } catch {
    return undefined;
  }
}

/** The name ip(8) knows our network namespace by. */
export function namespaceName(folder = '/run/netns'): string | undefined {
  try {
    const own = statSync('/proc/self/ns/net').ino;
    return readdirSync(folder).find((name) => statSync(join(folder, name)).ino === own);
  } catch {
    return undefined;
  }
}
