// SPDX-License-Identifier: Apache-2.0
// The contents of an instance's pinned maps, for commands that run without an agent.
import type { HeldFrontend } from '../../../dataplane.ts';
import type { Snapshot } from '../../../snapshot.ts';
import { heldFrontends, snapshotOf } from '../../inspect/view.ts';
import { adopt } from '../../state/adopt.ts';
import type { Tables } from '../../state/tables.ts';
import { mapNamed } from '../loader/attach.ts';
import { openPinned } from '../loader/open-pinned.ts';
import { kernelTables, TABLE_MAPS } from '../maps/kernel.ts';

/** Throws NOT_FOUND, NO_PRIVILEGE. */
export const pinnedSnapshot = (bpfRoot: string): Snapshot => withTables(bpfRoot, snapshotOf);

/** Throws NOT_FOUND, also if they are those of another version, and NO_PRIVILEGE. */
export const pinnedFrontends = (bpfRoot: string): readonly HeldFrontend[] =>
  withTables(bpfRoot, (tables) => [...heldFrontends(adopt(tables).ledger)]);

function withTables<T>(bpfRoot: string, use: (tables: Tables) => T): T {
  const maps = new Map(TABLE_MAPS.map((name) => [name as string, openPinned(bpfRoot, name)]));
  try {
    return use(kernelTables((name) => mapNamed(maps, name)));
  } finally {
    for (const map of maps.values()) map.close();
  }
}
