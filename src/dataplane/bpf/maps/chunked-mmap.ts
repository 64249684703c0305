// SPDX-License-Identifier: Apache-2.0
// An array table over memory that is mapped piece by piece, as it is needed. Tables are sized for the
// largest node, and the kernel counts every mapped page as ours, touched or not.
import type { ArrayTable } from './tables.ts';

export interface PieceMemory {
  /** Bytes of the array; the begin is a multiple of PIECE_BYTES. */
  map(offset: number, length: number): ArrayBuffer;
  unmap(memory: ArrayBuffer): void;
}

/** A multiple of every page size there is. */
export const PIECE_BYTES = 65_536;

/** @param shape elementSize divides PIECE_BYTES: every struct in an array has a power of two as its size */
export function createPieces(
  shape: Pick<ArrayTable, 'name' | 'length' | 'elementSize'>,
  memory: PieceMemory,
): ArrayTable {
  const { length, elementSize } = shape;
  const elementsPerPiece = PIECE_BYTES / elementSize;
  const pieces = new Map<number, DataView>();

  const mapPiece = (piece: number): DataView => {
    const first = piece * PIECE_BYTES;
    return new DataView(memory.map(first, Math.min(PIECE_BYTES, length * elementSize - first)));
  };

  const view = (index: number): DataView => {
    const piece = Math.floor(index / elementsPerPiece);
    const known = pieces.get(piece);
    if (known !== undefined) return known;
    const mapped = mapPiece(piece);
    pieces.set(piece, mapped);
    return mapped;
  };

  const scanPiece = (
    piece: number,
    isKept: (view: DataView, offset: number, index: number) => boolean,
  ): void => {
    const known = pieces.get(piece);
    const at = known ?? mapPiece(piece);
    const first = piece * elementsPerPiece;
    const end = Math.min(length, first + elementsPerPiece);
    let isNeeded = false;
    for (let index = first; index < end; index += 1) {
      if (isKept(at, (index - first) * elementSize, index)) isNeeded = true;
    }
    if (known !== undefined) return;
    if (isNeeded) pieces.set(piece, at);
    else memory.unmap(at.buffer as ArrayBuffer);
  };

  return {
    ...shape,
    view,
    offset: (index) => (index % elementsPerPiece) * elementSize,
    scan(isKept) {
      for (let piece = 0; piece * elementsPerPiece < length; piece += 1) scanPiece(piece, isKept);
    },
  };
}
