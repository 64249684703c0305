// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { formatDuration, parseDuration } from '../../../src/config/duration.ts';

test.each([
  ['30s', 30_000, '30s'],
  ['1m30s', 90_000, '1m30s'],
  ['15m', 900_000, '15m0s'],
  ['15m0s', 900_000, '15m0s'],
  ['24h', 86_400_000, '24h0m0s'],
  ['2h22m', 8_520_000, '2h22m0s'],
  ['1.5h', 5_400_000, '1h30m0s'],
  ['250ms', 250, '250ms'],
  ['1.5ms', 1.5, '1.5ms'],
  ['.5s', 500, '500ms'],
  ['1500ms', 1500, '1.5s'],
  ['7us', 0.007, '7µs'],
  ['3ns', 0.000003, '3ns'],
  ['0', 0, '0s'],
  ['0s', 0, '0s'],
  ['-5s', -5000, '-5s'],
  ['+5s', 5000, '5s'],
])('%s is %d ms and is written %s', (text, ms, written) => {
  expect(parseDuration(text)).toBe(ms);
  expect(formatDuration(ms)).toBe(written);
  expect(parseDuration(written)).toBe(ms);
});

test.each(['', '30', 's', '5 s', '1d', '1m 30s', '5S', '--5s', '.', '.s', '1e3s', '300000000h'])(
  '%j is no duration',
  (text) => {
    expect(parseDuration(text)).toBeUndefined();
  },
);
