// SPDX-License-Identifier: Apache-2.0
// fl_mark, which the packet programs write: the addresses that connections have had. Connections in pinned tables that are
// older than the map have no marks.
import type { BpfMap } from '../../../sys/native.ts';
import { encodeU32 } from '../layout/layout.ts';

/** Marks every address if none is marked although there are connections: a mark too many costs only look-ups. */
export function markOlderConns(marks: BpfMap, hasConns: () => boolean): void {
  if (marks.readAll().values.some((mark) => mark !== 0) || !hasConns()) return;
  const { maxEntries, valueSize } = marks.info;
  const all = new Uint8Array(valueSize).fill(1);
  // Behind them is the epoch.
  for (let line = 0; line < maxEntries - 1; line++) marks.put(encodeU32(line), all);
}
