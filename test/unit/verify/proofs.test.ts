// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { Proofs } from '../../../src/verify/proofs.ts';

describe('proofs', () => {
  test('a difference counts when two readings in a row find the same', () => {
    const proofs = new Proofs();
    const read = (what: string, atMs: number) => {
      proofs.judge(['d/a', 'd/b'], new Map([['d/a', what]]), atMs);
      return [...proofs.confirmed];
    };
    expect(read('is missing', 1)).toEqual([]);
    expect(read('has other backends', 2)).toEqual([]);
    expect(read('has other backends', 3)).toEqual([['d/a', 'has other backends']]);
  });

  test('the oldest is the one that has waited longest, proven or not', () => {
    const proofs = new Proofs();
    expect(proofs.oldestMs()).toBeUndefined();
    proofs.judge(['d/a', 'd/b'], new Map(), 10);
    proofs.judge(
      ['d/a', 'd/b', 'd/c'],
      new Map([
        ['d/a', 'x'],
        ['d/c', 'y'],
      ]),
      20,
    );
    expect([proofs.oldestMs(), proofs.unproven()]).toEqual([10, 2]);
    proofs.judge(['d/b'], new Map(), 30);
    expect([proofs.oldestMs(), proofs.unproven()]).toEqual([30, 0]);
  });
});
