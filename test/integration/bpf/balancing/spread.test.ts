// SPDX-License-Identifier: Apache-2.0
// New connections spread over a set as the weights say, whatever its size: chi-square over a million picks.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SetRef } from '../../../../src/dataplane/bpf/maps/layout.ts';
import { tableOrder } from '../../../../src/dataplane/bpf/sync/service-port/table.ts';
import { Drive, encodeRequest } from '../support/drive.ts';

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
function counts(set: SetRef): number[] {
  const picked = new BigUint64Array(drive.object.map('fl_picked').mmap());
  picked.fill(0n);
  drive.putFrontend({ address: VIP, port: 80, rules: { host: { set } } });
  const dataIn = encodeRequest({ to: VIP, port: 80 });
  drive.object.program('fl_drive_count').testRun({ dataIn, repeat: PICKS });
  return Array.from(picked, Number);
}

/** By chi-square. Mean is one less than the number of backends, the standard deviation sqrt of twice that: beyond six of them, one false alarm in millions. */
function expectShares(picked: readonly number[], weights: ReadonlyMap<number, number>): void {
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

test.each([1, 2, 3, 15, 16, 17, 1000])('a set of %i backends', { timeout: 60_000 }, (slots) => {
  const ids = Array.from({ length: slots }, (_, i) => i + 1);
  expectShares(counts(drive.putSet(0, ids)), new Map(ids.map((id) => [id, 1])));
});

test.each([
  ['two backends', [3, 1]],
  ['a canary of a thousandth', [999, 1]],
  ['a table of several blocks', Array.from({ length: 40 }, (_, i) => 1 + (i % 7))],
])('weights of %s', { timeout: 60_000 }, (_, weights) => {
  const ids = weights.map((_, index) => 1 + index);
  const table = tableOrder(weights).map((index) => 1 + index);
  const picked = counts(drive.putSetOfKind('weighted-random', 16, ids, table));
  expectShares(picked, new Map(ids.map((id, index) => [id, weights[index]!])));
});

test('a table of other backends than the members is what the programs choose from', () => {
  const picked = counts(drive.putSetOfKind('weighted-random', 16, [1, 2, 3], [3, 3, 3]));
  expect(picked[3]).toBe(PICKS);
});

test('an empty table selects nothing, and fails no program', () => {
  const picked = counts(drive.putSetOfKind('weighted-random', 400, [1, 2, 3], []));
  expect(picked[0]).toBe(PICKS);
});
