// SPDX-License-Identifier: Apache-2.0
// Opens pins for commands that run without an agent, or says why that is not possible.
import { statSync } from 'node:fs';
import { FairleadError } from '../../../../errors.ts';
import { type BpfMap, openPinnedMap } from '../../../../sys/native.ts';
import type { PinnedMap } from '../../layout/versions.ts';
import { mapPath } from './pins.ts';

/** Throws NOT_FOUND, also while `fairlead cleanup` removes one map after the other, and NO_PRIVILEGE. */
export const openPinned = (bpfRoot: string, name: PinnedMap): BpfMap =>
  openPin(bpfRoot, mapPath(bpfRoot, name), openPinnedMap);

/** Looked at first: without privileges bpf(2) refuses even what is not there. */
export function openPin<T>(bpfRoot: string, path: string, open: (path: string) => T): T {
  try {
    statSync(path);
    return open(path);
  } catch (error) {
    throw named(bpfRoot, error);
  }
}

function named(bpfRoot: string, error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EACCES' || code === 'EPERM') {
    return new FairleadError(
      'NO_PRIVILEGE',
      `permission denied on the pins below ${bpfRoot}: run this command as root`,
    );
  }
  if (code !== 'ENOENT' && code !== 'ENOTDIR') return error;
  return new FairleadError(
    'NOT_FOUND',
    `no maps are pinned below ${bpfRoot}: no agent has run with this --bpf-root, or it was cleaned up`,
  );
}
