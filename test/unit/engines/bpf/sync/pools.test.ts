// SPDX-License-Identifier: Apache-2.0
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  createIdPool,
  RESTING_IDS,
} from '../../../../../src/engines/bpf/state/allocation/id-pool.ts';
import { createBlockPool } from '../../../../../src/engines/bpf/state/allocation/slot-pool.ts';

describe('ids', () => {
  test('begin at 1, end below the capacity, and run out', () => {
    const pool = createIdPool(4);
    expect([pool.take(), pool.take(), pool.take(), pool.take()]).toEqual([1, 2, 3, undefined]);
    expect(pool.used()).toBe(3);
  });

  test('come back oldest first; few of them only after every fresh one', () => {
    const pool = createIdPool(5);
    const [a = 0, b = 0] = [pool.take(), pool.take()];
    pool.give(b);
    pool.give(a);
    expect([pool.take(), pool.take(), pool.take(), pool.take(), pool.take()]).toEqual([
      3,
      4,
      b,
      a,
      undefined,
    ]);
  });

  test('rest while others are freed, and are then used before fresh ones', () => {
    const pool = createIdPool(1_000_000);
    const freed = Array.from({ length: RESTING_IDS }, () => pool.take() ?? 0);
    for (const id of freed) pool.give(id);
    const fresh = pool.take() ?? 0;
    expect(fresh).toBe(RESTING_IDS + 1);
    pool.give(fresh);
    expect([pool.take(), pool.take()]).toEqual([1, RESTING_IDS + 2]);
    for (let round = 0; round < 100_000; round += 1) pool.give(pool.take() ?? 0);
    expect(pool.take()).toBeLessThan(RESTING_IDS + 10);
  });

  test('ids in use in the kernel are not allocated; the gaps between them are', () => {
    const pool = createIdPool(6, [2, 4]);
    expect([pool.take(), pool.take(), pool.take(), pool.take()]).toEqual([5, 1, 3, undefined]);
  });
});

describe('blocks', () => {
  test('allocations never overlap and all space can be reused, in any order', () => {
    const step = fc.oneof(
      fc.record({ take: fc.integer({ min: 1, max: 9 }) }),
      fc.record({ give: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const capacity = 40;
        const pool = createBlockPool(capacity);
        const runs: { first: number; blocks: number }[] = [];
        for (const s of steps) {
          if ('take' in s) {
            const first = pool.take(s.take);
            if (first === undefined) continue;
            expect(first + s.take).toBeLessThanOrEqual(capacity);
            for (const run of runs) {
              expect(first >= run.first + run.blocks || run.first >= first + s.take).toBe(true);
            }
            runs.push({ first, blocks: s.take });
          } else if (runs.length > 0) {
            const [run] = runs.splice(s.give % runs.length, 1);
            if (run !== undefined) pool.give(run.first, run.blocks);
          }
          expect(pool.used()).toBe(runs.reduce((sum, run) => sum + run.blocks, 0));
        }
        for (const run of runs) pool.give(run.first, run.blocks);
        expect(pool.take(capacity)).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  test('an allocation fails only if no gap is long enough', () => {
    const pool = createBlockPool(10, [
      { first: 3, blocks: 2 },
      { first: 7, blocks: 1 },
    ]);
    expect(pool.take(4)).toBeUndefined();
    expect(pool.take(3)).toBe(0);
    expect([pool.take(2), pool.take(2)].sort()).toEqual([5, 8]);
    expect(pool.take(1)).toBeUndefined();
  });
});
