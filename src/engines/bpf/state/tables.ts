// SPDX-License-Identifier: Apache-2.0
// The kernel's tables as the dataplane sees them: hash tables behind calls, arrays as shared memory.
// kernel.ts makes them from BPF maps, test/support/tables/memory.ts from plain memory.
import type { Family } from '../../../model/types.ts';

/** One write the kernel refused. `index` counts within the call's list. */
export interface RefusedWrite {
  readonly index: number;
  /** errno name, e.g. 'E2BIG' (table full) or 'ENOMEM'. */
  readonly code: string;
}

export interface HashTable {
  readonly name: string;
  readonly capacity: number;
  readAll(): readonly { readonly key: Uint8Array; readonly value: Uint8Array }[];
  get(key: Uint8Array): Uint8Array | undefined;
  /** Puts every pair it can, in order; returns those that the kernel refused. */
  put(keys: readonly Uint8Array[], values: readonly Uint8Array[]): readonly RefusedWrite[];
  /** Absent keys count as deleted. */
  delete(keys: readonly Uint8Array[]): readonly RefusedWrite[];
}

/** Elements in shared memory: writes are visible to the kernel at once. */
export interface ArrayTable {
  readonly name: string;
  readonly length: number;
  readonly elementSize: number;
  /** Memory that holds the element, from `offset(index)` on. Valid for this element only. */
  view(index: number): DataView;
  offset(index: number): number;
  /** Every element in order. `isKept` tells whether its memory stays mapped. */
  scan(isKept: (view: DataView, offset: number, index: number) => boolean): void;
  /** The same in steps of well under a millisecond. */
  scanInSteps(
    isKept: (view: DataView, offset: number, index: number) => boolean,
  ): Generator<void, void>;
}

export interface DirectTables {
  /** By backend id. */
  readonly backendNode: ArrayTable;
  /** What other nodes name a backend of this one by -> backend id. */
  readonly localBackend: HashTable;
}

export interface Tables {
  /** Frontend key -> frontend id. */
  readonly frontend: Readonly<Record<Family, HashTable>>;
  /** By frontend id. */
  readonly frontendRecord: ArrayTable;
  readonly backend: Readonly<Record<Family, ArrayTable>>;
  readonly slotBlock: ArrayTable;
  readonly serviceName: HashTable;
  readonly frontendStat: ArrayTable;
  readonly backendStat: ArrayTable;
  readonly backendFlows: ArrayTable;
  /** By frontend id; undefined: the packet layer is not loaded. */
  readonly traffic?: ArrayTable;
  /** Of direct return; undefined: the packet layer is not loaded. */
  readonly direct?: DirectTables;
  readonly nodeAddress: Readonly<Record<Family, HashTable>>;
  /** A trie: `get` finds the longest prefix, not the key. */
  readonly sourceRange: HashTable;
  /** A bit for each range of addresses: no ClusterIP is there. */
  readonly notService: ArrayTable;
  readonly runtime: ArrayTable;
}

export function element(table: ArrayTable, index: number): Uint8Array {
  const view = table.view(index);
  const at = view.byteOffset + table.offset(index);
  return new Uint8Array(view.buffer, at, table.elementSize);
}

/** All bytes of the element become 0. */
export function clear(table: ArrayTable, index: number): void {
  const view = table.view(index);
  const at = table.offset(index);
  for (let byte = 0; byte < table.elementSize; byte += 4) view.setUint32(at + byte, 0);
}

/**
 * Makes the element equal `bytes`, word by word: a program sees each aligned 8 bytes either old or new, and
 * with them everything that was written before.
 */
export function storeWords(table: ArrayTable, index: number, bytes: Uint8Array): void {
  const view = table.view(index);
  const at = view.byteOffset + table.offset(index);
  const to = new BigUint64Array(view.buffer, at, table.elementSize / 8);
  wordBytes.set(bytes);
  for (let word = 0; word < to.length; word += 1) {
    const value = words[word] ?? 0n;
    if (to[word] !== value) Atomics.store(to, word, value);
  }
}

const LARGEST_ELEMENT_WORDS = 8;
/** A view of the bytes themselves would move them off the heap. */
const words = new BigUint64Array(LARGEST_ELEMENT_WORDS);
const wordBytes = new Uint8Array(words.buffer);
