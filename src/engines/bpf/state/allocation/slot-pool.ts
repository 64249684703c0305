// SPDX-License-Identifier: Apache-2.0
// Runs of set blocks: first fit by exact size, then from the untouched end, then from merged holes.
// Pure bookkeeping.

export interface BlockPool {
  readonly capacity: number;
  used(): number;
  /** First block of a run of `blocks` blocks, or undefined if no hole is long enough. */
  take(blocks: number): number | undefined;
  give(first: number, blocks: number): void;
}

export interface BlockRun {
  readonly first: number;
  readonly blocks: number;
}

/** @param taken runs the kernel's frontends already refer to (read back at start) */
export function createBlockPool(capacity: number, taken: Iterable<BlockRun> = []): BlockPool {
  const isUsed = new Uint8Array(capacity);
  const holes = new Map<number, number[]>();
  let end = 0;
  let used = 0;

  const mark = (first: number, blocks: number, value: 0 | 1): void => {
    isUsed.fill(value, first, first + blocks);
    used += value === 1 ? blocks : -blocks;
  };

  const addHole = (first: number, blocks: number): void => {
    const sameSize = holes.get(blocks);
    if (sameSize === undefined) holes.set(blocks, [first]);
    else sameSize.push(first);
  };

  /** Rebuilds the list of holes as maximal runs below `end`. */
  const mergeHoles = (): void => {
    holes.clear();
    for (let block = 0; block < end; ) {
      if (isUsed[block] === 1) {
        block++;
        continue;
      }
      const first = block;
      while (block < end && isUsed[block] === 0) block++;
      if (block === end) end = first;
      else addHole(first, block - first);
    }
  };

  const takeFromHoles = (blocks: number): number | undefined => {
    let best: number | undefined;
    for (const [size, firsts] of holes) {
      if (size >= blocks && firsts.length > 0 && (best === undefined || size < best)) best = size;
    }
    const first = best === undefined ? undefined : holes.get(best)?.pop();
    if (first === undefined || best === undefined) return undefined;
    if (best > blocks) addHole(first + blocks, best - blocks);
    return first;
  };

  const takeFromEnd = (blocks: number): number | undefined => {
    if (end + blocks > capacity) return undefined;
    const first = end;
    end += blocks;
    return first;
  };

  const allocation = [...taken];
  for (const run of allocation) {
    end = Math.max(end, run.first + run.blocks);
    mark(run.first, run.blocks, 1);
  }
  if (allocation.length > 0) mergeHoles();

  return {
    capacity,
    used: () => used,
    take(blocks) {
      let first = holes.get(blocks)?.pop() ?? takeFromEnd(blocks);
      if (first === undefined) {
        mergeHoles();
        first = takeFromHoles(blocks) ?? takeFromEnd(blocks);
      }
      if (first !== undefined) mark(first, blocks, 1);
      return first;
    },
    give(first, blocks) {
      mark(first, blocks, 0);
      addHole(first, blocks);
    },
  };
}
