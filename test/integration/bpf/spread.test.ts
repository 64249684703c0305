// SPDX-License-Identifier: Apache-2.0
// New connections spread evenly over a set, whatever its size: chi-square over a million picks.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Drive, encodeRequest } from './support/drive.ts';

const PICKS = 1_000_000;
const VIP = '10.96.0.10';

let drive: Drive;
beforeAll(() => {
  drive = new Drive();
  for (let id = 1; id <= 1000; id++) {
    drive.putBackend({ id, address: `10.0.${id >> 8}.${id & 255}`, port: 8080 });
  }
});
afterAll(() => drive?.close());

/** How often each id was selected. */
function counts(ids: readonly number[]): number[] {
  const picked = new BigUint64Array(drive.object.map('fl_picked').mmap());
  picked.fill(0n);
  drive.putFrontend({ address: VIP, port: 80, rules: { host: { set: drive.putSet(0, ids) } } });
  const dataIn = encodeRequest({ to: VIP, port: 80 });
  drive.object.program('fl_drive_count').testRun({ dataIn, repeat: PICKS });
  return Array.from(picked, Number);
}

test.each([1, 2, 3, 15, 16, 17, 1000])('a set of %i backends', { timeout: 60_000 }, (slots) => {
  const ids = Array.from({ length: slots }, (_, i) => i + 1);
  const picked = counts(ids);
  const share = PICKS / slots;
  const chiSquare = ids.reduce((sum, id) => sum + (picked[id]! - share) ** 2 / share, 0);
  expect(picked.reduce((sum, n) => sum + n, 0)).toBe(PICKS);
  expect(ids.every((id) => picked[id]! > 0)).toBe(true);
  // Mean slots - 1, standard deviation sqrt(2 (slots - 1)): beyond six of them, one false alarm in millions.
  expect(chiSquare).toBeLessThan(slots - 1 + 6 * Math.sqrt(2 * (slots - 1)) + 30);
});

test('a backend that is in the set twice is selected twice as often', { timeout: 60_000 }, () => {
  const picked = counts([1, 2, 2]);
  expect(picked[2]! / picked[1]!).toBeGreaterThan(1.97);
  expect(picked[2]! / picked[1]!).toBeLessThan(2.03);
});
