// SPDX-License-Identifier: Apache-2.0
// Mounts of a topology: the bpf file system that its instances pin to.
import { run, runSync } from '../../src/sys/exec.ts';
import { readMounts } from '../../src/sys/mounts.ts';

/** Mounts a BPF file system at an existing directory. Throws with the message of mount(8). */
export async function mountBpffs(path: string): Promise<void> {
  const { code, stderr } = await run('mount', ['-t', 'bpf', 'bpf', path]);
  if (code !== 0) throw new Error(`cannot mount bpffs at ${path}: ${stderr.trim()}`);
}

/** Unmounts everything mounted at or below a directory, innermost first. Nothing there is success. */
export function unmountBelow(directory: string): void {
  const below = readMounts().filter(
    ({ mountPoint }) => mountPoint === directory || mountPoint.startsWith(`${directory}/`),
  );
  for (const { mountPoint } of below.reverse()) runSync('umount', [mountPoint]);
}
