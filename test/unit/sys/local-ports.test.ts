// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { localPortRange, reservedPorts } from '../../../src/sys/local-ports.ts';

const DEFAULT = { first: 32_768, last: 60_999 };

function written(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'local-ports-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'sysctl'), text);
  return join(folder, 'sysctl');
}

test.each([
  ['20000\t30000\n', { first: 20_000, last: 30_000 }],
  ['1024 65535', { first: 1024, last: 65_535 }],
  ['', DEFAULT],
  ['none', DEFAULT],
  ['9 3', DEFAULT],
])('%j', (text, range) => {
  expect(localPortRange(written(text))).toEqual(range);
});

test('the default if there is no such file', () => {
  expect(localPortRange('/nonexistent')).toEqual(DEFAULT);
});

test.each([
  ['\n', []],
  ['8080\n', [{ first: 8080, last: 8080 }]],
  [
    '8080,9148-9200\n',
    [
      { first: 8080, last: 8080 },
      { first: 9148, last: 9200 },
    ],
  ],
])('reserved: %j', (text, ranges) => {
  expect(reservedPorts(written(text))).toEqual(ranges);
});

test('none is reserved if there is no such file', () => {
  expect(reservedPorts('/nonexistent')).toEqual([]);
});
