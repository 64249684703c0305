// SPDX-License-Identifier: Apache-2.0
// Where a member lies in a struct of the running kernel. libbpf could tell, but it takes 12 MiB to read the kernel's BTF,
// at a moment when the agent has the most memory in use.
import { closeSync, openSync, readSync } from 'node:fs';
import { memberOffset } from './member.ts';
import type { ReadAt } from './read.ts';

const PATH = '/sys/kernel/btf/vmlinux';

/** undefined if the BTF cannot be read. A pass over all of it takes some 15 ms. */
export function readKernelBtf<T>(pass: (read: ReadAt) => T, path = PATH): T | undefined {
  let fd: number | undefined;
  try {
    const opened = openSync(path, 'r');
    fd = opened;
    return pass((into, at) => readSync(opened, into, 0, into.length, at));
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** In bits; undefined if the BTF cannot be read or does not tell. */
export const kernelMemberOffset = (
  struct: string,
  member: string,
  path?: string,
): number | undefined => readKernelBtf((read) => memberOffset(read, { struct, member }), path);
