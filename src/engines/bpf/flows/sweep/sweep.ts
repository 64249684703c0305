// SPDX-License-Identifier: Apache-2.0
// Ends expired connections, in the kernel (bpf/packet/sweep.bpf.c), a bounded part at a time. It holds no timer: the agent
// calls step() so often that a round takes the time it wants.
import { FAMILIES, type Family } from '../../../../model/types.ts';
import {
  decodeSwept,
  encodeSweepCall,
  type SweepCall,
  type Swept,
} from '../../layout/packet-layout.ts';

export interface Sweep {
  /** Calls in a round. */
  readonly steps: number;
  /** Looks at the next part of the tables; true after the last one. Throws if the kernel refuses the call. */
  step(): boolean;
  /** Since the maps were made. */
  total(): Swept;
}

export interface SweepOptions {
  /** Runs fl_sweep once over this frame; its return value. */
  readonly run: (frame: Uint8Array) => number;
  /** The element of fl_swept. */
  readonly swept: () => Uint8Array;
  /** Of the clients' index. */
  readonly buckets: (family: Family) => number;
}

/** MOST_BUCKETS of sweep.bpf.c: less than a millisecond. */
const BUCKETS_PER_CALL = 512;

export function createSweep({ run, swept, buckets }: SweepOptions): Sweep {
  const parts = FAMILIES.flatMap((family) => partsOf(family, buckets(family)));
  let next = 0;
  return {
    steps: parts.length,
    step() {
      const part = parts[next];
      if (part === undefined) throw new TypeError('there are no tables of connections');
      next = (next + 1) % parts.length;
      const result = run(encodeSweepCall(part));
      if (result !== 0) throw new TypeError(`fl_sweep returned ${result}`);
      return next === 0;
    },
    total: () => decodeSwept(swept()),
  };
}

const partsOf = (family: Family, buckets: number): readonly SweepCall[] =>
  Array.from({ length: Math.ceil(buckets / BUCKETS_PER_CALL) }, (_, part) => {
    const first = part * BUCKETS_PER_CALL;
    return { family, first, count: Math.min(BUCKETS_PER_CALL, buckets - first) };
  });
