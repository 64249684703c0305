// SPDX-License-Identifier: Apache-2.0
// fl_not_service: ranges of addresses without frontends, and port numbers without NodePorts, for which programs need not
// look. Derived from the frontends, not from ServiceCIDRs: a ClusterIP outside them is served, too. Pure bookkeeping
// over one array table.
import { RANGES, RANGES_PER_WORD } from '../../layout/layout.ts';
import type { ArrayTable } from '../../state/tables.ts';

export interface ServiceRanges {
  /** Number of frontends by range; absent: none. */
  readonly counts: Map<number, number>;
  /** Ranges whose bit may be 0 though it could be 1. */
  readonly cleared: Set<number>;
  /** False until the table has been written by this process. */
  isWritten: boolean;
}

export const createServiceRanges = (): ServiceRanges => ({
  counts: new Map(),
  cleared: new Set(),
  isWritten: false,
});

/** Number of the bit for a frontend key. As may_be_frontend() and may_be_node_port() in bpf/common/frontend.h. */
export function rangeOf(key: Uint8Array): number {
  if (isNodePortKey(key)) return 2 * RANGES + portOf(key);
  if (key.length === 8) return wordAt(key, 0) >>> 16;
  const hash =
    Math.imul(wordAt(key, 0), 0x9e3779b1) +
    Math.imul(wordAt(key, 4), 0x85ebca6b) +
    Math.imul(wordAt(key, 8), 0xc2b2ae35);
  return RANGES + ((hash >>> 16) & 0xffff);
}

/** A frontend key without an address: it is found under every address of the node. */
export function isNodePortKey(key: Uint8Array): boolean {
  for (let at = 0; at < key.length - 4; at += 1) if (key[at] !== 0) return false;
  return true;
}

const portOf = (key: Uint8Array): number =>
  (key[key.length - 4] ?? 0) | ((key[key.length - 3] ?? 0) << 8);

/** Without a view, which would move the key off the heap. */
const wordAt = (bytes: Uint8Array, at: number): number =>
  (((bytes[at] ?? 0) << 24) |
    ((bytes[at + 1] ?? 0) << 16) |
    ((bytes[at + 2] ?? 0) << 8) |
    (bytes[at + 3] ?? 0)) >>>
  0;

/** Counts a frontend that was added (1) or removed (-1). */
export function countFrontend(ranges: ServiceRanges, key: Uint8Array, change: 1 | -1): void {
  const range = rangeOf(key);
  const count = (ranges.counts.get(range) ?? 0) + change;
  if (count > 0) {
    ranges.counts.set(range, count);
    return;
  }
  ranges.counts.delete(range);
  ranges.cleared.add(range);
}

/** Lets programs find frontends with these keys. To be called before they are put. */
export function openRanges(
  ranges: ServiceRanges,
  table: ArrayTable,
  keys: Iterable<Uint8Array>,
): void {
  for (const key of keys) {
    const range = rangeOf(key);
    if (ranges.counts.has(range)) continue;
    writeBit(table, range, false);
    ranges.cleared.add(range);
  }
}

/** Makes the table agree with the counts. To be called after removed frontends have been deleted. */
export function closeRanges(ranges: ServiceRanges, table: ArrayTable): void {
  const { counts, cleared } = ranges;
  if (ranges.isWritten) {
    for (const range of cleared) if (!counts.has(range)) writeBit(table, range, true);
  } else {
    writeAll(counts, table);
  }
  ranges.isWritten = true;
  cleared.clear();
}

function writeAll(counts: ServiceRanges['counts'], table: ArrayTable): void {
  const words = new BigUint64Array((3 * RANGES) / RANGES_PER_WORD).fill(2n ** 64n - 1n);
  for (const range of counts.keys()) {
    const word = Math.floor(range / RANGES_PER_WORD);
    words[word] = (words[word] ?? 0n) & ~(1n << BigInt(range % RANGES_PER_WORD));
  }
  for (const [word, wanted] of words.entries()) {
    const view = table.view(word);
    const at = table.offset(word);
    if (view.getBigUint64(at, true) !== wanted) view.setBigUint64(at, wanted, true);
  }
}

/** Bits are counted from the lowest of the lowest byte, as in a little-endian word. */
function writeBit(table: ArrayTable, range: number, isSet: boolean): void {
  const word = Math.floor(range / RANGES_PER_WORD);
  const at = table.offset(word) + Math.floor((range % RANGES_PER_WORD) / 8);
  const view = table.view(word);
  const bit = 1 << (range % 8);
  const byte = view.getUint8(at);
  view.setUint8(at, isSet ? byte | bit : byte & ~bit);
}
