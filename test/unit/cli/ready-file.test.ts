// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createReadyFile } from '../../../src/cli/ready-file.ts';

let folder: string;
let warnings: unknown[];
const log = { warn: (...line: readonly unknown[]) => void warnings.push(line) };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fairlead-ready-'));
  warnings = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('is there from `write` to `remove`, in a folder that is made for it', () => {
  const path = join(folder, 'of', 'agent');
  const file = createReadyFile(path, log);
  expect(existsSync(path)).toBe(false);
  file.write();
  expect(readFileSync(path, 'utf8')).toBe(`${process.pid}\n`);
  file.remove();
  file.remove();
  expect(existsSync(path)).toBe(false);
});

test('that of an agent that was killed goes at the start', () => {
  const path = join(folder, 'agent');
  writeFileSync(path, '1\n');
  createReadyFile(path, log);
  expect(existsSync(path)).toBe(false);
});

test('a path that cannot be used is refused, and one that cannot be written later is a warning', () => {
  writeFileSync(join(folder, 'file'), '');
  expect(() => createReadyFile(join(folder, 'file', 'agent'), log)).toThrow(
    expect.objectContaining({
      code: 'BAD_OPTION',
      message: expect.stringContaining('--ready-file'),
    }),
  );
  const file = createReadyFile(join(folder, 'agent'), log);
  rmSync(folder, { recursive: true });
  file.write();
  expect(warnings).toMatchObject([[{ path: join(folder, 'agent') }, 'ready file not written']]);
});

test('without the flag there is none', () => {
  const file = createReadyFile(undefined, log);
  file.write();
  file.remove();
});
