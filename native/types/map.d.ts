// SPDX-License-Identifier: Apache-2.0
// Maps, ring buffers, and when no program can still see what was replaced.
import type { NativeError } from './errors.js';
import type { BpfProgram } from './program.js';

export interface MapInfo {
  /** As the kernel has it, which cuts it at 15 characters. */
  readonly name: string;
  /** Kernel's enum bpf_map_type: 1 is a hash map, 2 an array, 27 a ring buffer. */
  readonly type: number;
  /** In bytes; 0 for a ring buffer. */
  readonly keySize: number;
  /** In bytes, as declared; per-CPU maps return possibleCpus() × valueSize rounded up to 8. */
  readonly valueSize: number;
  /** Elements; of a ring buffer, bytes. */
  readonly maxEntries: number;
  /** BPF_F_* of BPF_MAP_CREATE. */
  readonly flags: number;
  /** Kernel id of the map. */
  readonly id: number;
}

/** What became of a batch: a failure in the middle is returned, not thrown. */
export interface BatchResult {
  /** How many leading entries the kernel took: honest also on failure. */
  readonly count: number;
  /** The error that stopped it; undefined = all were taken. */
  readonly error?: NativeError;
}

/**
 * A handle of an open map. Keys and values are bytes as programs see them: numbers in the machine's byte order, with the
 * compiler's padding. What is returned is a copy, but for mmap(). 'ARGUMENT' if bytes are not as long as `info` says.
 */
export interface BpfMap {
  readonly info: MapInfo;
  /** Value bytes, or undefined if the key is absent. */
  get(key: Uint8Array): Uint8Array | undefined;
  /** flags: 0 any, 1 only if absent (EEXIST), 2 only if present (ENOENT). Throws E2BIG if the map is full. */
  put(key: Uint8Array, value: Uint8Array, flags?: number): void;
  /** Into an array of programs (type 3), which tail calls go to. Throws EINVAL if the map is another one. */
  putProgram(key: Uint8Array, program: BpfProgram): void;
  /** False if the key was absent. */
  delete(key: Uint8Array): boolean;
  /** `keys` and `values` hold whole elements back to back (values padded to 8 for per-CPU maps). */
  putBatch(keys: Uint8Array, values: Uint8Array): BatchResult;
  /** Absent keys are not an error: they are skipped and counted as done. */
  deleteBatch(keys: Uint8Array): BatchResult;
  /**
   * Every element, read in batches; falls back to get-next-key where the map type has no batches.
   * Under writers it is no snapshot: what is there all the time is read once, in a hash map.
   */
  readAll(): { readonly keys: Uint8Array; readonly values: Uint8Array; readonly count: number };
  /**
   * About `count` elements (1 to 65,536) and where they end: `next`, as `after` of the next call, continues there;
   * undefined = these were the last. Hash buckets are not divided: the elements of one may exceed `count`. As
   * readAll() under writers. Throws where the map type has no batches.
   */
  readBatch(
    count: number,
    after?: Uint8Array,
  ): {
    readonly keys: Uint8Array;
    readonly values: Uint8Array;
    readonly count: number;
    readonly next?: Uint8Array;
  };
  /**
   * Shared memory of a BPF_F_MMAPABLE array: element i starts at i × (valueSize rounded up to 8). All of
   * it, or `length` bytes from `offset`, which is a multiple of the page size: what is mapped counts as
   * this process's memory. The same ArrayBuffer for the same part; it is detached (byteLength 0) by munmap
   * and when the map is closed, and cannot be transferred to another thread. What its own transfer()
   * returns (Node 22) is the caller's: it stays mapped until it is collected, whatever becomes of the
   * map. ENOTSUP for any other map.
   */
  mmap(offset?: number, length?: number): ArrayBuffer;
  /** Unmaps a part. 'ARGUMENT' for memory that mmap() did not return, or that was unmapped or transferred since. */
  munmap(memory: ArrayBuffer): void;
  /** The map stays in the kernel while the pin does. `path` is in a BPF file system; EEXIST if there is something. */
  pin(path: string): void;
  /** Lets go of the handle; the map goes with its last handle, program and pin. */
  close(): void;
}

/** ENOENT if there is no such pin; 'ARGUMENT' if it is that of something else. */
export function openPinnedMap(path: string): BpfMap;

/** A reader of a ring buffer. */
export interface RingBuffer {
  /** No record is delivered after it; those not yet delivered are dropped. */
  close(): void;
}

/**
 * Calls `onRecord` on the event loop for each record, in order; a thread waits, the loop never blocks.
 * A record is a copy of the bytes that the program has written. About 256 records per turn of the loop and millisecond; 4,096 records or 1 MiB wait outside the ring, the others
 * in it. What `onRecord` throws is an uncaught exception. Keeps the process alive until closed.
 */
export function openRingBuffer(map: BpfMap, onRecord: (record: Uint8Array) => void): RingBuffer;

/** Resolves after every (not sleepable) BPF program that was running when it was called has ended. */
export function waitGracePeriod(): Promise<void>;
