// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { firstConnections, grownTo } from '../../../../../src/engines/bpf/conn/growth.ts';

const LIMIT = 1_048_576;
const MADE = 65_536;
const occupied = (confirmed: number, halfOpen: number) => ({
  used: confirmed + halfOpen,
  halfOpen,
  evicted: 0,
  noRoom: 0,
});

test.each([
  ['few connections', 100, 100, MADE, LIMIT, MADE],
  ['almost a quarter half-open', 100, 16_383, MADE, LIMIT, MADE],
  ['a quarter half-open', 100, 16_384, MADE, LIMIT, 262_144],
  ['almost half', 32_767, 0, MADE, LIMIT, MADE],
  ['half', 32_768, 0, MADE, LIMIT, 262_144],
  ['half of what it has grown to', 131_072, 0, 262_144, LIMIT, LIMIT],
  ['as large as it may be', LIMIT, 0, LIMIT, LIMIT, LIMIT],
  ['a limit that is near', 32_768, 0, MADE, 100_000, 100_000],
  ['a flood, as far as its share goes', 100, 43_211, MADE, LIMIT, 262_144],
  ['the same, when it has grown', 100, 172_845, 262_144, LIMIT, 262_144],
  ['a flood beside many connections', 30_000, 172_845, 262_144, LIMIT, LIMIT],
  ['a flood under a low limit', 100, 43_211, MADE, MADE, MADE],
  ['a small limit', 600, 0, 1000, 1000, 1000],
])('%s', (_name, confirmed, halfOpen, made, limit, expected) => {
  expect(grownTo(occupied(confirmed, halfOpen), made, limit)).toBe(expected);
});

test.each([
  ['what has grown', 262_144, LIMIT, 262_144],
  ['less than that is allowed now', 262_144, 100_000, 100_000],
  ['a limit was raised that was less than the first size', 1_000, LIMIT, MADE],
  ['it is as low as before', 1_000, 1_000, 1_000],
])('after an agent: %s', (_name, left, limit, expected) => {
  expect(firstConnections(left, limit)).toBe(expected);
});
