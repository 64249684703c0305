// SPDX-License-Identifier: Apache-2.0
// The pinned map of bypassed cgroups (fl_cgroup_skip), by cgroup id, and their count, which the programs check
// first.
import { FairleadError } from '../../../errors.ts';
import type { BpfMap } from '../../../sys/native.ts';
import { SKIPPED_CGROUPS_OFFSET } from '../layout/layout.ts';
import { openPinned } from './loader/open-pinned.ts';

const ASKED_FOR = Uint8Array.of(1, 0, 0, 0);

const key = (id: bigint): Uint8Array => new Uint8Array(new BigUint64Array([id]).buffer);

export function putId(map: BpfMap, id: bigint): void {
  try {
    map.put(key(id), ASKED_FOR);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'E2BIG')) throw error;
    throw new FairleadError(
      'BAD_OPTION',
      `${map.info.maxEntries} cgroups are bypassed, which is the maximum: \`fairlead bypass remove --gone\` removes those that no longer exist`,
    );
  }
}

export const deleteId = (map: BpfMap, id: bigint): boolean => map.delete(key(id));

export function readIds(map: BpfMap): readonly bigint[] {
  const { keys, count } = map.readAll();
  const view = new DataView(keys.buffer, keys.byteOffset, keys.byteLength);
  return Array.from({ length: count }, (_, index) => view.getBigUint64(index * 8, true));
}

/**
 * Runs `use` on the map, then updates the count: if it is 0, programs skip the lookup. While `use` runs
 * the count is not 0, so that no entry is ignored if the process is killed before the update.
 */
export function withBypassMap<T>(bpfRoot: string, use: (map: BpfMap) => T): T {
  const map = openPinned(bpfRoot, 'fl_cgroup_skip');
  try {
    return withCount(bpfRoot, map, use);
  } finally {
    map.close();
  }
}

function withCount<T>(bpfRoot: string, map: BpfMap, use: (map: BpfMap) => T): T {
  const runtimeFlags = openPinned(bpfRoot, 'fl_runtime');
  try {
    const flags = new DataView(runtimeFlags.mmap());
    flags.setUint32(SKIPPED_CGROUPS_OFFSET, map.readAll().count + 1, true);
    try {
      return use(map);
    } finally {
      writeCount(map, flags);
    }
  } finally {
    runtimeFlags.close();
  }
}

/** Repeated if another `fairlead bypass` changed the map meanwhile. */
function writeCount(map: BpfMap, runtimeFlags: DataView): void {
  let count: number;
  do {
    count = map.readAll().count;
    runtimeFlags.setUint32(SKIPPED_CGROUPS_OFFSET, count, true);
  } while (map.readAll().count !== count);
}
