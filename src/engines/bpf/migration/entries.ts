// SPDX-License-Identifier: Apache-2.0
// Entries of one map into another one, converted.
import type { BpfMap } from '../../../sys/native.ts';
import { encodeU32 } from '../layout/layout.ts';
import type { Convert } from './fields.ts';

export interface Converts {
  readonly key: Convert;
  readonly value: Convert;
}

export interface Entry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** Kernel's enum bpf_map_type. */
export const TYPE = { hash: 1, array: 2, percpuArray: 6, lruHash: 9, lpmTrie: 11, storage: 24 };
const BATCH = 4096;
const ABSENT = 1;
const BPF_F_MMAPABLE = 0x400;
/** So many take a multiple of every page size, as elements of 8 bytes too. */
export const PART_ELEMENTS = 8192;

export const isArray = ({ info }: BpfMap): boolean =>
  info.type === TYPE.array || info.type === TYPE.percpuArray;

/**
 * Of arrays only elements that are not all zero: most of a large array is.
 * @param onBatch called now and then, before some thousand entries
 */
export function* entriesOf(map: BpfMap, onBatch?: () => void): Generator<Entry> {
  if ((map.info.flags & BPF_F_MMAPABLE) !== 0) {
    yield* sharedElements(map);
    return;
  }
  const { keySize, valueSize } = map.info;
  const isSparse = isArray(map);
  for (const { keys, values, count } of batchesOf(map)) {
    onBatch?.();
    const size = count === 0 ? valueSize : values.length / count;
    for (let index = 0; index < count; index += 1) {
      if (isSparse && isZero(values, index * size, size)) continue;
      const value = values.subarray(index * size, (index + 1) * size);
      yield { key: keys.subarray(index * keySize, (index + 1) * keySize), value };
    }
  }
}

/** In shared memory this takes a twentieth of the time. */
function* sharedElements(map: BpfMap): Generator<Entry> {
  const { maxEntries, valueSize } = map.info;
  const words = wordsOf(map);
  for (let first = 0; first < maxEntries; first += PART_ELEMENTS) {
    const memory = mapPart(map, first);
    try {
      const all = new BigUint64Array(memory);
      for (let at = 0; at < all.length; at += words) {
        if (isZeroElement(all, at, words)) continue;
        const value = new Uint8Array(memory, at * 8, valueSize).slice();
        yield { key: encodeU32(first + at / words), value };
      }
    } finally {
      map.munmap(memory);
    }
  }
}

/** Of an element of an array. */
export const wordsOf = ({ info: { valueSize } }: BpfMap): number => Math.ceil(valueSize / 8);

/** From this element, a multiple of PART_ELEMENTS: mapped pages count as the agent's memory. */
export function mapPart(map: BpfMap, first: number): ArrayBuffer {
  const count = Math.min(PART_ELEMENTS, map.info.maxEntries - first);
  return map.mmap(first * wordsOf(map) * 8, count * wordsOf(map) * 8);
}

export function countEntries(map: BpfMap): number {
  let total = 0;
  for (const { count } of batchesOf(map)) total += count;
  return total;
}

function* batchesOf(map: BpfMap): Generator<ReturnType<BpfMap['readAll']>> {
  if (map.info.type === TYPE.lpmTrie || map.info.type === TYPE.percpuArray) {
    yield map.readAll();
    return;
  }
  for (let after: Uint8Array | undefined; ; ) {
    const { next, ...batch } = map.readBatch(BATCH, after);
    yield batch;
    if (next === undefined) return;
    after = next;
  }
}

function isZeroElement(words: BigUint64Array, at: number, count: number): boolean {
  for (let index = at; index < at + count; index += 1) if (words[index] !== 0n) return false;
  return true;
}

function isZero(bytes: Uint8Array, at: number, size: number): boolean {
  for (let index = at; index < at + size; index += 1) if (bytes[index] !== 0) return false;
  return true;
}

/** Into a map that no program uses. Of an array, elements beyond its end are left out. */
export function fill(to: BpfMap, entries: Iterable<Entry>, { key, value }: Converts): void {
  for (const one of entries) {
    const at = key(one.key);
    if (isArray(to) && indexOf(at) >= to.info.maxEntries) continue;
    to.put(at, value(one.value));
  }
}

export function empty(map: BpfMap): void {
  const { keys } = map.readAll();
  if (keys.length > 0) map.deleteBatch(keys);
}

export interface MergeOptions {
  readonly converts: Converts;
  /** When an entry was used last; undefined: the one that is there stays. */
  readonly seen?: ((value: Uint8Array) => bigint) | undefined;
  /** As of entriesOf(). */
  readonly onBatch?: (() => void) | undefined;
}

/** Into a map that programs use: what it lacks, and what was used later than what it has. */
export function merge(from: BpfMap, to: BpfMap, { converts, seen, onBatch }: MergeOptions): void {
  for (const one of entriesOf(from, onBatch)) {
    const [key, value] = [converts.key(one.key), converts.value(one.value)];
    const there = to.get(key);
    if (there === undefined) putAbsent(to, key, value);
    else if (seen !== undefined && seen(value) > seen(there)) to.put(key, value);
  }
}

/** A program may have made it meanwhile; or there is no room, as there would be none for the program. */
export function putAbsent(to: BpfMap, key: Uint8Array, value: Uint8Array): void {
  try {
    to.put(key, value, ABSENT);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'EEXIST' && code !== 'E2BIG') throw error;
  }
}

export const indexOf = (key: Uint8Array): number =>
  new DataView(key.buffer, key.byteOffset).getUint32(0, true);
