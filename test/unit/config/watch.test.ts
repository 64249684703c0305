// SPDX-License-Identifier: Apache-2.0
// The watcher on a temporary folder, with the changes that editors and ConfigMap volumes make.
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ConfigWatch, watchConfigFile } from '../../../src/config/file/watch.ts';
import { untilHolds } from '../../support/until.ts';

let folder: string;
let open: ConfigWatch | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-config-'));
});
afterEach(() => {
  open?.close();
  rmSync(folder, { recursive: true });
});

function watched(path: string, known: string): string[] {
  const seen: string[] = [];
  open = watchConfigFile(path, known, (text) => seen.push(text));
  return seen;
}

test('a written file is reported once, by its event', async () => {
  const path = join(folder, 'c.yaml');
  writeFileSync(path, 'a');
  const seen = watched(path, 'a');
  writeFileSync(`${path}.new`, 'b');
  renameSync(`${path}.new`, path);
  await untilHolds(() => expect(seen).toEqual(['b']));
  open?.look();
  expect(seen).toEqual(['b']);
});

test('a ConfigMap volume that swaps its link is reported', async () => {
  for (const [version, text] of ['a', 'b'].entries()) {
    mkdirSync(join(folder, `..v${version}`));
    writeFileSync(join(folder, `..v${version}`, 'c.yaml'), text);
  }
  symlinkSync('..v0', join(folder, '..data'));
  symlinkSync('..data/c.yaml', join(folder, 'c.yaml'));
  const seen = watched(join(folder, 'c.yaml'), 'a');
  symlinkSync('..v1', join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  await untilHolds(() => expect(seen).toEqual(['b']));
});

test('a deleted or unchanged file is not reported', () => {
  const path = join(folder, 'c.yaml');
  const seen = watched(path, 'a');
  open?.look();
  writeFileSync(path, 'a');
  open?.look();
  expect(seen).toEqual([]);
});

test('a folder that cannot be watched is polled, and close is idempotent', () => {
  const path = join(folder, 'later', 'c.yaml');
  const seen = watched(path, 'a');
  mkdirSync(join(folder, 'later'));
  writeFileSync(path, 'b');
  open?.look();
  expect(seen).toEqual(['b']);
  open?.close();
  open?.close();
});
