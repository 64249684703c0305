// SPDX-License-Identifier: Apache-2.0
// The kernel's tables opened from their pins, for commands that run without an agent.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { mapNamed } from '../dataplane/bpf/loader/attach.ts';
import { pinFolder } from '../dataplane/bpf/loader/pins.ts';
import { kernelTables, TABLE_MAPS } from '../dataplane/bpf/maps/kernel.ts';
import { adopt } from '../dataplane/bpf/sync/adopt.ts';
import type { Ledger } from '../dataplane/bpf/sync/ledger.ts';
import { FairleadError } from '../errors.ts';
import { openPinnedMap } from '../sys/native.ts';

/** Opens the pinned maps, hands their contents to `use`, and closes them. Throws NOT_FOUND. */
export function withPinnedTables<T>(bpfRoot: string, use: (ledger: Ledger) => T): T {
  const folder = pinFolder(bpfRoot);
  const first = join(folder.maps, TABLE_MAPS[0]);
  try {
    statSync(first);
  } catch (error) {
    throw notThere(bpfRoot, error);
  }
  const maps = new Map(
    TABLE_MAPS.map((name) => [name as string, openPinnedMap(join(folder.maps, name))]),
  );
  try {
    return use(adopt(kernelTables((name) => mapNamed(maps, name))).ledger);
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
        `no maps are pinned below ${bpfRoot}: no agent ever ran with this --bpf-root, or it was cleaned up`,
      );
}
