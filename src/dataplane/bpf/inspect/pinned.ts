// SPDX-License-Identifier: Apache-2.0
// The contents of an instance's pinned maps, for commands that run without an agent.
import { statSync } from 'node:fs';
import { FairleadError } from '../../../errors.ts';
import { openPinnedMap } from '../../../sys/native.ts';
import type { Snapshot } from '../../snapshot.ts';
import { mapNamed } from '../loader/attach.ts';
import { mapPath } from '../loader/pins.ts';
import { kernelTables, TABLE_MAPS } from '../maps/kernel.ts';
import { snapshotOf } from './view.ts';

/** Throws NOT_FOUND, NO_PRIVILEGE. */
export function pinnedSnapshot(bpfRoot: string): Snapshot {
  try {
    statSync(mapPath(bpfRoot, TABLE_MAPS[0]));
  } catch (error) {
    throw notThere(bpfRoot, error);
  }
  const maps = new Map(
    TABLE_MAPS.map((name) => [name as string, openPinnedMap(mapPath(bpfRoot, name))]),
  );
  try {
    return snapshotOf(kernelTables((name) => mapNamed(maps, name)));
  } finally {
    for (const map of maps.values()) map.close();
  }
}

function notThere(bpfRoot: string, error: unknown): FairleadError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'EACCES' || code === 'EPERM'
    ? new FairleadError(
        'NO_PRIVILEGE',
        `permission denied on the pinned maps below ${bpfRoot}: run this command as root`,
      )
    : new FairleadError(
        'NOT_FOUND',
        `no maps are pinned below ${bpfRoot}: no agent has run with this --bpf-root, or it was cleaned up`,
      );
}
