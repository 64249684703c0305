// SPDX-License-Identifier: Apache-2.0
// Removes everything of one instance from the kernel: its links and filters, and with them their programs, then its maps
// in any layout version. Synchronous, so that an agent can do it as the last step before it exits.
import { join, relative } from 'node:path';
import { removeFiltersOf } from '../devices/clsact.ts';
import { detachPinned } from '../devices/device-pins.ts';
import { removeOtherGenerations } from '../migration/generations.ts';
import { removeFields } from '../migration/records.ts';
import { lockExistingPins, type PinHolder } from './lock.ts';
import { listPins, unpin } from './pins.ts';

/** Pins by their path below bpfRoot. */
export interface PinnedParts {
  readonly links: readonly string[];
  readonly maps: readonly string[];
}

/** What is pinned there, without changing anything. */
export function listPinned(bpfRoot: string): PinnedParts {
  const { links, maps } = listPins(bpfRoot);
  const name = (path: string): string => relative(bpfRoot, path);
  return { links: links.map(name), maps: maps.map(name) };
}

/** Removes it; succeeds if there is nothing. Throws BPF_ROOT_IN_USE. */
export function removePinned(bpfRoot: string, holder: PinHolder): PinnedParts {
  const lock = lockExistingPins(bpfRoot, holder);
  if (lock === undefined) return { links: [], maps: [] };
  try {
    const parts = listPinned(bpfRoot);
    for (const name of parts.links) detachPinned(join(bpfRoot, name), removeFiltersOf);
    for (const name of parts.maps) unpin(join(bpfRoot, name));
    removeOtherGenerations(bpfRoot);
    removeFields(bpfRoot);
    lock.removeEmptyFolders();
    return parts;
  } finally {
    lock.close();
  }
}
