// SPDX-License-Identifier: Apache-2.0
// The contents of an instance's pinned maps, for commands that run without an agent.
import type { Snapshot } from '../../snapshot.ts';
import { mapNamed } from '../loader/attach.ts';
import { openPinned } from '../loader/open-pinned.ts';
import { kernelTables, TABLE_MAPS } from '../maps/kernel.ts';
import { snapshotOf } from './view.ts';

/** Throws NOT_FOUND, NO_PRIVILEGE. */
export function pinnedSnapshot(bpfRoot: string): Snapshot {
  const maps = new Map(TABLE_MAPS.map((name) => [name as string, openPinned(bpfRoot, name)]));
  try {
    return snapshotOf(kernelTables((name) => mapNamed(maps, name)));
  } finally {
    for (const map of maps.values()) map.close();
  }
}
