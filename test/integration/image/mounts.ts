// SPDX-License-Identifier: Apache-2.0
// The mounts of a container: the defaults of the OCI runtime specification and the volumes of its Pod.

export interface ContainerMount {
  readonly destination: string;
  readonly source: string;
  readonly type: string;
  readonly options: readonly string[];
}

const mount = (
  destination: string,
  type: string,
  options: readonly string[],
  source = type,
): ContainerMount => ({ destination, source, type, options });

const SAFE = ['nosuid', 'noexec', 'nodev'];

/**
 * As containerd has them. The cgroup hierarchy is shown from the node's own cgroup down, so that nothing
 * reaches the machine's root: read-only unless the container is privileged.
 */
export function runtimeMounts(isPrivileged: boolean, cgroupRoot: string): ContainerMount[] {
  const access = isPrivileged ? 'rw' : 'ro';
  return [
    mount('/proc', 'proc', SAFE),
    mount('/dev', 'tmpfs', ['nosuid', 'strictatime', 'mode=755', 'size=65536k']),
    mount('/dev/pts', 'devpts', ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620']),
    mount('/dev/shm', 'tmpfs', [...SAFE, 'mode=1777', 'size=65536k'], 'shm'),
    mount('/sys', 'sysfs', [...SAFE, access]),
    mount('/sys/fs/cgroup', 'bind', ['rbind', ...SAFE, access], cgroupRoot),
  ];
}

const PROPAGATION: Readonly<Record<string, string>> = {
  None: 'rprivate',
  HostToContainer: 'rslave',
  Bidirectional: 'rshared',
};

export function bindMount(
  source: string,
  destination: string,
  isReadOnly: boolean,
  propagation = 'None',
): ContainerMount {
  const access = isReadOnly ? 'ro' : 'rw';
  const shared = PROPAGATION[propagation] ?? 'rprivate';
  return mount(destination, 'bind', ['rbind', shared, access], source);
}

/** The propagation of the container's root that its mounts need to come from the node, or to reach it. */
export function rootPropagation(mounts: readonly ContainerMount[]): string {
  const has = (word: string): boolean => mounts.some(({ options }) => options.includes(word));
  if (has('rshared')) return 'rshared';
  return has('rslave') ? 'rslave' : 'rprivate';
}
