// SPDX-License-Identifier: Apache-2.0
// New connections spread over a set as the weights say, whatever its size: chi-square over a million picks.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { tableOrder } from '../../../../src/engines/bpf/rows/service-port/set-content.ts';
import { Drive } from '../support/drive.ts';
import { countPicks, expectShares, PICKS } from '../support/shares.ts';

let drive: Drive;
beforeAll(() => {
  drive = new Drive();
  for (let id = 1; id <= 1000; id++) {
    drive.putBackend({ id, address: `10.0.${id >> 8}.${id & 255}`, port: 8080 });
  }
});
afterAll(() => drive?.close());

test.each([1, 2, 3, 15, 16, 17, 1000])('a set of %i backends', (slots) => {
  const ids = Array.from({ length: slots }, (_, i) => i + 1);
  expectShares(countPicks(drive, drive.putSet(0, ids)), new Map(ids.map((id) => [id, 1])));
});

test.each([
  ['two backends', [3, 1]],
  ['a canary of a thousandth', [999, 1]],
  ['a table of several blocks', Array.from({ length: 40 }, (_, i) => 1 + (i % 7))],
])('weights of %s', (_, weights) => {
  const ids = weights.map((_, index) => 1 + index);
  const table = tableOrder(weights).map((index) => 1 + index);
  const picked = countPicks(drive, drive.putSetOfKind('weighted-random', 16, ids, table));
  expectShares(picked, new Map(ids.map((id, index) => [id, weights[index]!])));
});

test('a table of other backends than the members is what the programs choose from', () => {
  const picked = countPicks(drive, drive.putSetOfKind('weighted-random', 16, [1, 2, 3], [3, 3, 3]));
  expect(picked[3]).toBe(PICKS);
});

test('an empty table selects nothing, and fails no program', () => {
  const picked = countPicks(drive, drive.putSetOfKind('weighted-random', 400, [1, 2, 3], []));
  expect(picked[0]).toBe(PICKS);
});
