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

/** Entries of a full table that one call looks at: about 10 ms. */
const ENTRIES_PER_CALL = 65_536;

export function createSweep({ run, swept, capacity }: SweepOptions): Sweep {
  const parts = FLOW_TABLES.flatMap((map, table) => {
    const slices = Math.max(1, Math.ceil(capacity(map) / ENTRIES_PER_CALL));
    return Array.from({ length: slices }, (_, slice) => ({
      ...{ map, isFirst: slice === 0, isLast: slice === slices - 1 },
      call: encodeSweepCall({ table, slice, slices }),
    }));
  });
  const used = new Map<string, number>();
  let next = 0;
  let counted = 0;
  return {
    steps: parts.length,
    step() {
      const part = parts[next % parts.length];
      next += 1;
      if (part === undefined) return true;
      const before = decodeSwept(swept());
      const result = run(part.call);
      if (result !== 0) throw new TypeError(`fl_sweep returned ${result}`);
      counted = (part.isFirst ? 0 : counted) + leftBetween(before, decodeSwept(swept()));
      if (part.isLast) used.set(part.map, counted);
      return next % parts.length === 0;
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
