// SPDX-License-Identifier: Apache-2.0
// Numeric ids of array elements: never 0; reused oldest first, and only after many others were freed; and low,
// so that little of an array is ever touched. Pure bookkeeping: the ledger knows which ids are still in use.

export interface IdPool {
  readonly capacity: number;
  /** Number of allocated ids. */
  used(): number;
  take(): number | undefined;
  give(id: number): void;
}

/** Number of freed ids before the oldest of them is reused: minutes at 100 changes per second. */
export const RESTING_IDS = 16_384;

/**
 * @param capacity number of array elements; ids run from 1 to capacity - 1
 * @param taken ids that are already in the kernel (read back at start)
 */
export function createIdPool(capacity: number, taken: Iterable<number> = []): IdPool {
  const seeded = new Set(taken);
  let next = 1;
  for (const id of seeded) next = Math.max(next, id + 1);
  const free: number[] = [];
  for (let id = 1; id < next; id++) if (!seeded.has(id)) free.push(id);
  let head = 0;
  let used = seeded.size;

  const takeFreed = (): number | undefined => {
    const id = free[head];
    if (id === undefined) return undefined;
    head++;
    if (head > 1024 && head * 2 > free.length) {
      free.splice(0, head);
      head = 0;
    }
    return id;
  };

  return {
    capacity: Math.max(0, capacity - 1),
    used: () => used,
    take() {
      const isRested = free.length - head > RESTING_IDS || next >= capacity;
      const id = isRested ? takeFreed() : next++;
      if (id !== undefined) used++;
      return id;
    },
    give(id) {
      free.push(id);
      used--;
    },
  };
}
