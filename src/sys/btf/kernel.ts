// SPDX-License-Identifier: Apache-2.0
// The BTF of the running kernel, for one pass over it.
import { closeSync, openSync, readSync } from 'node:fs';
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
