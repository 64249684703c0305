// SPDX-License-Identifier: Apache-2.0
// How often each backend was selected of a million times, against its share, by chi-square.
import { expect } from 'vitest';
import type { SetRef } from '../../../../src/engines/bpf/layout/layout.ts';
import { type Drive, encodeRequest } from './drive.ts';

export const PICKS = 1_000_000;
const VIP = '10.96.0.10';

/** How often each id was selected. */
export function countPicks(drive: Drive, set: SetRef): number[] {
  const picked = new BigUint64Array(drive.object.map('fl_picked').mmap());
  picked.fill(0n);
  drive.putFrontend({ address: VIP, port: 80, rules: { host: { set } } });
  const dataIn = encodeRequest({ to: VIP, port: 80 });
  drive.object.program('fl_drive_count').testRun({ dataIn, repeat: PICKS });
  return Array.from(picked, Number);
}

/** The mean is one less than the number of backends, the standard deviation the root of twice that: beyond six of them, one false alarm in millions. */
export function expectShares(
  picked: readonly number[],
  weights: ReadonlyMap<number, number>,
): void {
  const sum = [...weights.values()].reduce((total, weight) => total + weight, 0);
  let chiSquare = 0;
  for (const [id, weight] of weights) {
    const share = (PICKS * weight) / sum;
    expect(picked[id]).toBeGreaterThan(0);
    chiSquare += (picked[id]! - share) ** 2 / share;
  }
  expect(picked.reduce((total, n) => total + n, 0)).toBe(PICKS);
  const freedom = weights.size - 1;
  expect(chiSquare).toBeLessThan(freedom + 6 * Math.sqrt(2 * freedom) + 30);
}
