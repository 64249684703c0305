// SPDX-License-Identifier: Apache-2.0
// Filters by address, and ages and sizes as kubectl prints them.
import { expect, test } from 'vitest';
import { parseAddressFilter } from '../../../../src/cli/view/address-filter.ts';
import { ageText, sizeText } from '../../../../src/cli/view/units.ts';

test.each<[filter: string, found: string, isMeant: boolean]>([
  ['10.0.0.1', '10.0.0.1:80', true],
  ['10.0.0.1', '10.0.0.10:80', false],
  ['10.0.0.1:80', '10.0.0.1:80', true],
  ['10.0.0.1:80', '10.0.0.1:8080', false],
  ['10.0.0.0/8', '10.255.0.1:1', true],
  ['10.0.0.0/8', '[fd00::1]:1', false],
  ['10.0.0.0/8', '', false],
  ['fd00::1', '[fd00::1]:80', true],
  ['FD00:0::1', '[fd00::1]:80', true],
  ['[fd00::1]:80', '[fd00::1]:80', true],
  ['[fd00::1]:80', '[fd00::1]:81', false],
  ['fd00::/8', '[fd00::1]:80', true],
  ['sk:1a', 'sk:1a', true],
  ['sk:1a', 'sk:1a2', false],
  ['10.0.0.1', 'sk:1a', false],
  ['0.0.0.0/0', 'sk:1a', false],
])('%s fits %s: %s', (filter, found, isMeant) => {
  expect(parseAddressFilter(filter)(found)).toBe(isMeant);
});

test.each([
  '',
  'web',
  '10.0.0',
  '10.0.0.1:',
  '10.0.0.1:70000',
  '10.0.0.1/33',
  'fd00::1:x',
  '[fd00::1]',
])('%j is refused', (text) => {
  expect(() => parseAddressFilter(text)).toThrow('is not an address, an address:port or a CIDR');
});

test.each([
  ...([
    [0, '0s'],
    [0.9, '0s'],
    [119, '119s'],
    [120, '2m'],
    [125, '2m5s'],
    [599, '9m59s'],
  ] as const),
  ...([
    [600, '10m'],
    [10_799, '179m'],
    [10_800, '3h'],
    [12_000, '3h20m'],
    [28_799, '7h59m'],
  ] as const),
  ...([
    [28_800, '8h'],
    [172_799, '47h'],
    [172_800, '2d'],
    [183_600, '2d3h'],
  ] as const),
  ...([
    [691_200, '8d'],
    [34_560_000, '400d'],
    [63_072_000, '2y'],
    [65_000_000, '2y22d'],
  ] as const),
  ...([[300_000_000, '9y']] as const),
])('%i seconds are %s', (seconds, text) => {
  expect(ageText(seconds)).toBe(text);
});

test.each([
  ...([
    [0, '0'],
    [0.4, '0.4'],
    [512, '512'],
    [1023.4, '1023'],
    [1023.6, '1Ki'],
    [1024, '1Ki'],
  ] as const),
  ...([
    [1536, '1.5Ki'],
    [10_200, '10Ki'],
    [10_240, '10Ki'],
    [1_048_575, '1Mi'],
  ] as const),
  ...([
    [35_651_584, '34Mi'],
    [2 ** 42, '4Ti'],
    [2 ** 62, '4096Pi'],
  ] as const),
])('%f bytes are %s', (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});
