// SPDX-License-Identifier: Apache-2.0
// Where the backends of a chain stand in maps that chains share. A rule with a map of its own for each chain, as kube-proxy
// writes it, makes the kernel look through all maps of the table for a free name: 10,000 of them take 12 s.
//   numgen random mod 3 offset 8 map @endpoints-tcp-0    chooses among elements 8, 9 and 10
// A block has room for a power of two, so that a set that grows seldom moves. What changes in one transaction is seen at
// once, so a block that is free may be used by another chain in the same one.

export interface Blocks {
  /** Where the chain's block begins, with room for that many. */
  take(chain: string, count: number): number;
  /** Its backends are written in another way, or it is gone. */
  release(chain: string): void;
  /** What an earlier agent has written. Ignored where it overlaps with another. */
  adopt(found: readonly FoundBlock[]): void;
}

export interface FoundBlock {
  readonly chain: string;
  readonly start: number;
  readonly count: number;
}

interface Block {
  readonly start: number;
  readonly size: number;
}

const roomFor = (count: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, count)));

/** A block that is less full moves to a smaller one. */
const LEAST_PART = 4;

export function createBlocks(): Blocks {
  const used = new Map<string, Block>();
  const free = new Map<number, number[]>();
  let end = 0;
  const release = (chain: string): void => {
    const block = used.get(chain);
    if (block === undefined) return;
    used.delete(chain);
    const starts = free.get(block.size) ?? [];
    starts.push(block.start);
    free.set(block.size, starts);
  };
  const allocate = (size: number): number => {
    const known = free.get(size)?.pop();
    if (known !== undefined) return known;
    // Aligned, so that none is in two maps.
    const start = Math.ceil(end / size) * size;
    end = start + size;
    return start;
  };
  return {
    take(chain, count) {
      const block = used.get(chain);
      const size = roomFor(count);
      if (block !== undefined && size <= block.size && size * LEAST_PART > block.size)
        return block.start;
      release(chain);
      const start = allocate(size);
      used.set(chain, { start, size });
      return start;
    },
    release,
    adopt(found) {
      const sorted = found.toSorted((a, b) => a.start - b.start);
      for (const { chain, start, count } of sorted) {
        if (start < end || used.has(chain)) continue;
        const size = roomFor(count);
        used.set(chain, { start, size });
        end = start + size;
      }
    },
  };
}
