// SPDX-License-Identifier: Apache-2.0
// Mounts of the stage itself: the bpf file system its instances pin to, and how it goes.
import { run, runSync } from '../sys/exec.ts';
import { readMounts } from '../sys/mounts.ts';

/** Mounts a BPF file system at an existing directory. Throws with mount(8)'s own words. */
export async function mountBpffs(path: string): Promise<void> {
  const { code, stderr } = await run('mount', ['-t', 'bpf', 'bpf', path]);
  if (code !== 0) throw new Error(`cannot mount bpffs at ${path}: ${stderr.trim()}`);
}

/** Unmounts whatever is mounted at or below a directory, innermost first. Nothing there is success. */
export function unmountBelow(directory: string): void {
  const below = readMounts().filter(
    ({ mountPoint }) => mountPoint === directory || mountPoint.startsWith(`${directory}/`),
  );
  for (const { mountPoint } of below.reverse()) runSync('umount', [mountPoint]);
}
