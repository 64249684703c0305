// SPDX-License-Identifier: Apache-2.0
// Values of the options of benchmarks.
import { expect, test } from 'vitest';
import { count, counts, listOf } from '../../../../tools/bench/lib/options.ts';

test('numbers are in ascending order, each once', () => {
  expect(counts('1000,1,1000')).toEqual([1, 1_000]);
});

test.each(['0', '-1', '1.5', 'x', '', '100000'])('%o is no number of Services', (text) => {
  expect(() => count(text)).toThrow('is not a number from 1 to 99,999');
});

test('names are in the order of the table, with those that others are compared with', () => {
  const columns = listOf(['plain', 'ours', 'theirs'], ['plain']);
  expect(columns('theirs,ours')).toEqual(['plain', 'ours', 'theirs']);
  expect(columns('theirs')).toEqual(['plain', 'theirs']);
  expect(() => columns('ours,other')).toThrow('other is none of plain, ours, theirs.');
});
