// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { localPortRange } from '../../../src/sys/local-ports.ts';

const DEFAULT = { first: 32_768, last: 60_999 };

test.each([
  ['20000\t30000\n', { first: 20_000, last: 30_000 }],
  ['1024 65535', { first: 1024, last: 65_535 }],
  ['', DEFAULT],
  ['none', DEFAULT],
  ['9 3', DEFAULT],
])('%j', (text, range) => {
  const folder = mkdtempSync(join(tmpdir(), 'local-ports-'));
  writeFileSync(join(folder, 'range'), text);
  expect(localPortRange(join(folder, 'range'))).toEqual(range);
  rmSync(folder, { recursive: true });
});

test('the default if there is no such file', () => {
  expect(localPortRange('/nonexistent')).toEqual(DEFAULT);
});
