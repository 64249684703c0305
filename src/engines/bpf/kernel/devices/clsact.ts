// SPDX-License-Identifier: Apache-2.0
// clsact filters, for kernels without tcx (before 6.6). They belong to the device: nothing but its removal ends them,
// and they cannot be pinned. So the program of a filter is pinned where the link would be: a filter is this instance's if
// its program is.
import { FairleadError } from '../../../../errors.ts';
import { type BpfProgram, removeTcFilter, tcFilter } from '../../../../sys/native.ts';
import { readNetwork } from '../../../../sys/netlink/follow.ts';
import { DIRECTIONS, type Direction } from '../../devices/device-links.ts';

export interface FilterKey {
  readonly priority: number;
  readonly handle: number;
}

const HANDLE = 0xfa1;
/** Before and after the filters of others; the kernel numbers those without a priority from 49152 down. */
const FIRST: FilterKey = { priority: 1, handle: HANDLE };
const LAST: FilterKey = { priority: 50_000, handle: HANDLE };

export const filterKey = (isFirst: boolean): FilterKey => (isFirst ? FIRST : LAST);

/** Where the device has a filter with this program; undefined: nowhere. */
export const findFilter = (
  ifindex: number,
  direction: Direction,
  programId: number,
): FilterKey | undefined =>
  [FIRST, LAST].find((key) => tcFilter(ifindex, direction, key) === programId);

/** Replaces the filter that is there if its program is `replaces`. Throws ATTACH_FAILED if it is somebody else's. */
export function putFilter(
  program: BpfProgram,
  ifindex: number,
  direction: Direction,
  { key, replaces }: { readonly key: FilterKey; readonly replaces?: number },
): void {
  const other = tcFilter(ifindex, direction, key);
  if (other !== 0 && other !== replaces) {
    throw new FairleadError(
      'ATTACH_FAILED',
      `its ${direction} has a clsact filter with priority ${key.priority} and handle 0x${HANDLE.toString(16)} already, of program ${other}: stop the other fairlead, or remove the filter with \`tc filter del\``,
    );
  }
  program.attachTc(ifindex, direction, { ...key, forceClsact: true }).close();
}

export function removeFilter(ifindex: number, direction: Direction, programId: number): void {
  const key = findFilter(ifindex, direction, programId);
  if (key !== undefined) removeTcFilter(ifindex, direction, key);
}

/** From every device of this namespace. */
export function removeFiltersOf(programId: number): void {
  for (const ifindex of readNetwork().links.keys()) {
    for (const direction of DIRECTIONS) removeFilter(ifindex, direction, programId);
  }
}
