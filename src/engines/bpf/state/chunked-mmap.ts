// SPDX-License-Identifier: Apache-2.0
// An array table over memory that is mapped chunk by chunk, as it is needed. Tables are sized for the
// largest node, and the kernel counts every mapped page as ours, touched or not.
import type { ArrayTable } from './tables.ts';

export interface ChunkMemory {
  /** Bytes of the array; the start is a multiple of CHUNK_BYTES. */
  map(offset: number, length: number): ArrayBuffer;
  unmap(memory: ArrayBuffer): void;
}

/** A multiple of every page size. */
export const CHUNK_BYTES = 65_536;

/** @param shape elementSize divides CHUNK_BYTES: the size of every struct in an array is a power of two */
export function createChunkedMmap(
  shape: Pick<ArrayTable, 'name' | 'length' | 'elementSize'>,
  memory: ChunkMemory,
): ArrayTable {
  const { length, elementSize } = shape;
  const elementsPerChunk = CHUNK_BYTES / elementSize;
  const chunks = new Map<number, DataView>();

  const mapChunk = (chunk: number): DataView => {
    const first = chunk * CHUNK_BYTES;
    return new DataView(memory.map(first, Math.min(CHUNK_BYTES, length * elementSize - first)));
  };

  const view = (index: number): DataView => {
    const chunk = Math.floor(index / elementsPerChunk);
    const known = chunks.get(chunk);
    if (known !== undefined) return known;
    const mapped = mapChunk(chunk);
    chunks.set(chunk, mapped);
    return mapped;
  };

  const scanChunk = (
    chunk: number,
    isKept: (view: DataView, offset: number, index: number) => boolean,
  ): void => {
    const known = chunks.get(chunk);
    const at = known ?? mapChunk(chunk);
    const first = chunk * elementsPerChunk;
    const end = Math.min(length, first + elementsPerChunk);
    let isNeeded = false;
    for (let index = first; index < end; index += 1) {
      if (isKept(at, (index - first) * elementSize, index)) isNeeded = true;
    }
    if (known !== undefined) return;
    if (isNeeded) chunks.set(chunk, at);
    else memory.unmap(at.buffer as ArrayBuffer);
  };

  return {
    ...shape,
    view,
    offset: (index) => (index % elementsPerChunk) * elementSize,
    scan(isKept) {
      for (let chunk = 0; chunk * elementsPerChunk < length; chunk += 1) scanChunk(chunk, isKept);
    },
    *scanInSteps(isKept) {
      for (let chunk = 0; chunk * elementsPerChunk < length; chunk += 1) {
        scanChunk(chunk, isKept);
        yield;
      }
    },
  };
}
