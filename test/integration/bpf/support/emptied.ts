// SPDX-License-Identifier: Apache-2.0
// One copy of programs for all tests of a file, whose maps are emptied before each: to verify and load the programs takes longer than
// what most tests do with them.
import { afterAll, beforeEach } from 'vitest';
import type { BatchResult, BpfMap } from '../../../../src/sys/native.ts';
import type { Drive } from './drive.ts';

/** Call it at the top of a file or of a `describe`: each of its tests begins as with a copy of its own. */
export function emptiedBeforeEach<D extends Drive>(drive: D): D {
  emptyBeforeEach(drive);
  afterAll(() => drive.close());
  return drive;
}

/** The same with a drive that outlives these tests. */
export function emptyBeforeEach(drive: Drive): void {
  const empty = drive.object.maps
    // Constants of the programs are read-only.
    .filter((name) => !name.includes('.'))
    .map((name) => emptierOf(drive.object.map(name)));
  beforeEach(() => {
    for (const one of empty) one();
    drive.countFrontendsAnew();
  });
}

/** Of the kernel's enum bpf_map_type: arrays, and those with a value for each processor. */
const ARRAYS: ReadonlySet<number> = new Set([2, 6]);
/** BPF_MAP_TYPE_SK_STORAGE. */
const SOCKET_STORAGE = 24;
const BPF_F_MMAPABLE = 1 << 10;

/** What makes a map as it was when it was created. */
export function emptierOf(map: BpfMap): () => void {
  const { type, flags } = map.info;
  // Only programs can: and no test packet has a socket with a record.
  if (type === SOCKET_STORAGE) return () => undefined;
  if ((flags & BPF_F_MMAPABLE) !== 0) return () => new Uint8Array(map.mmap()).fill(0);
  if (!ARRAYS.has(type)) return () => mustSucceed(map.deleteBatch(map.readAll().keys));
  const { keys, values } = map.readAll();
  const zeros = new Uint8Array(values.length);
  return () => mustSucceed(map.putBatch(keys, zeros));
}

function mustSucceed({ error }: BatchResult): void {
  if (error !== undefined) throw error;
}
