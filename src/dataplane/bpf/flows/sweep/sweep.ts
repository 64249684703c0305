// SPDX-License-Identifier: Apache-2.0
// Deletes expired flows and legs without a flow, in the kernel (bpf/packet/sweep.bpf.c), a bounded part at a
// time. It holds no timer: the agent calls step() so often that a round takes the time it wants.
import { decodeSwept, encodeSweepCall, FLOW_TABLES, type Swept } from '../../maps/packet-layout.ts';

export interface Sweep {
  /** Calls in one round over all tables; may change with their contents. */
  readonly steps: number;
  /** Looks at the next part of the tables; true after the last one. Throws if the kernel refuses the call. */
  step(): boolean;
  /** Since the maps were made. */
  total(): Swept;
  /** Entries of each table as of the last round over it; empty before. */
  used(): ReadonlyMap<string, number>;
}

export interface SweepOptions {
  /** Runs fl_sweep once with this context; its return value. */
  readonly run: (context: Uint8Array) => number;
  /** The element of fl_swept. */
  readonly swept: () => Uint8Array;
  /** max_entries of one of the flow tables. */
  readonly capacity: (map: string) => number;
}

/** What one call looks at in a table: about 10 ms. */
const ENTRIES_PER_CALL = 65_536;
/** A table may get so many times what it had in the last round before one of its calls takes longer. */
const ROOM_TO_GROW = 4;

/** One of so many slices of one of FLOW_TABLES. Each call walks all buckets of the table, full or not: the fewer the better. */
interface Part {
  readonly table: number;
  readonly slice: number;
  readonly slices: number;
}

export function createSweep({ run, swept, capacity }: SweepOptions): Sweep {
  const used = new Map<string, number>();
  const slicesOf = (map: string): number => {
    const most = capacity(map);
    const expected = Math.min(most, ROOM_TO_GROW * (used.get(map) ?? most));
    return Math.max(1, Math.ceil(expected / ENTRIES_PER_CALL));
  };
  const firstOf = (table: number): Part => ({ table, slice: 0, slices: slicesOf(mapAt(table)) });
  const after = ({ table, slice, slices }: Part): Part =>
    slice + 1 < slices
      ? { table, slice: slice + 1, slices }
      : firstOf((table + 1) % FLOW_TABLES.length);
  let next = firstOf(0);
  let counted = 0;
  return {
    get steps() {
      return FLOW_TABLES.reduce((sum, map) => sum + slicesOf(map), 0);
    },
    step() {
      const part = next;
      next = after(part);
      const before = decodeSwept(swept());
      const result = run(encodeSweepCall(part));
      if (result !== 0) throw new TypeError(`fl_sweep returned ${result}`);
      counted = (part.slice === 0 ? 0 : counted) + leftBetween(before, decodeSwept(swept()));
      if (next.slice === 0) used.set(mapAt(part.table), counted);
      return next.slice === 0 && next.table === 0;
    },
    total: () => decodeSwept(swept()),
    used: () => used,
  };
}

const mapAt = (table: number): string => FLOW_TABLES[table] ?? '';

/** Entries that one call looked at and left. */
const leftBetween = (before: Swept, after: Swept): number => {
  const deleted = after.expired - before.expired + after.orphans - before.orphans;
  return after.entries - before.entries - deleted;
};
