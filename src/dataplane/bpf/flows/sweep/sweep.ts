// SPDX-License-Identifier: Apache-2.0
// Deletes expired flows and legs without a flow, in the kernel (bpf/packet/sweep.bpf.c), a bounded part at a
// time. It holds no timer: the agent calls step() so often that a round takes the time it wants.
import { decodeSwept, encodeSweepCall, FLOW_TABLES, type Swept } from '../../maps/packet-layout.ts';

export interface Sweep {
  /** Calls in the round that goes on, over all tables, or where that is not known, in the one before. */
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
/** A table may have so many times what it had in the last round. If it has more, a call of this round takes longer, ... */
const ROOM_TO_GROW = 4;
/** ... but at most so many times as long. */
const LONGEST_CALL = 4;

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
    const expected = Math.max(ROOM_TO_GROW * (used.get(map) ?? most), most / LONGEST_CALL);
    return Math.max(1, Math.ceil(Math.min(expected, most) / ENTRIES_PER_CALL));
  };
  const round = (): readonly Part[] =>
    FLOW_TABLES.flatMap((map, table) => {
      const slices = slicesOf(map);
      return Array.from({ length: slices }, (_, slice) => ({ table, slice, slices }));
    });
  /** @returns how many entries are left there */
  const sweepPart = (part: Part): number => {
    const before = decodeSwept(swept());
    const result = run(encodeSweepCall(part));
    if (result !== 0) throw new TypeError(`fl_sweep returned ${result}`);
    return leftBetween(before, decodeSwept(swept()));
  };
  let parts = round();
  let next = 0;
  let counted = 0;
  return {
    get steps() {
      return parts.length;
    },
    step() {
      const part = parts[next];
      if (part === undefined) throw new TypeError('there are no tables of flows');
      next += 1;
      if (part.slice === 0) counted = 0;
      const isLast = next === parts.length;
      try {
        counted += sweepPart(part);
        if (part.slice === part.slices - 1) used.set(FLOW_TABLES[part.table] ?? '', counted);
      } finally {
        if (isLast) [parts, next] = [round(), 0];
      }
      return isLast;
    },
    total: () => decodeSwept(swept()),
    used: () => used,
  };
}

/** Entries that one call looked at and left. */
const leftBetween = (before: Swept, after: Swept): number => {
  const deleted = after.expired - before.expired + after.orphans - before.orphans;
  return after.entries - before.entries - deleted;
};
