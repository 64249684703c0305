// SPDX-License-Identifier: Apache-2.0
// Files of the program with what V8 has compiled of them.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Parts } from '../../../../src/sys/process/parts.ts';

/** A folder with these files. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-parts-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const FILES = {
  'one.js': `const { two } = require('./two.js'); exports.sum = () => two() + 1;`,
  'two.js': `const path = require('node:path'); exports.two = () => path.sep.length + 1;`,
};
type One = { readonly sum: () => number };

test('a file and what it imports are loaded once', () => {
  const parts = new Parts();
  const path = join(folderOf(FILES), 'one.js');
  const one = parts.load(path) as One;
  expect(one.sum()).toBe(3);
  expect(parts.load(path)).toBe(one);
  expect([...parts.scripts.values()].map((script) => script.cachedDataRejected)).toEqual([
    undefined,
    undefined,
  ]);
});

test('what was compiled is used by later starts, but not of files that are left out', () => {
  const folder = folderOf(FILES);
  const first = new Parts();
  first.load(join(folder, 'one.js'));
  first.writeCaches(['one.js']);
  const second = new Parts();
  expect((second.load(join(folder, 'one.js')) as One).sum()).toBe(3);
  const refused = [...second.scripts].map(([path, script]) => [path, script.cachedDataRejected]);
  expect(refused).toEqual([
    [join(folder, 'one.js'), undefined],
    [join(folder, 'two.js'), false],
  ]);
});

test('of a text that is as long as before, but another, nothing is used', () => {
  const folder = folderOf(FILES);
  const first = new Parts();
  // V8 keeps the functions that have run.
  expect((first.load(join(folder, 'one.js')) as One).sum()).toBe(3);
  first.writeCaches([]);
  writeFileSync(join(folder, 'two.js'), FILES['two.js'].replace('+ 1', '+ 4'));
  expect((new Parts().load(join(folder, 'one.js')) as One).sum()).toBe(6);
});

test('without a use for what was compiled, a file is compiled', () => {
  const folder = folderOf(FILES);
  const first = new Parts();
  first.load(join(folder, 'two.js'));
  first.writeCaches([]);
  writeFileSync(join(folder, `${process.version}-${process.arch}`, 'two.js'), 'x');
  expect((new Parts().load(join(folder, 'one.js')) as One).sum()).toBe(3);
});

test.each([
  [
    'a bit is wrong',
    (bytes: Buffer) => bytes.map((byte, at) => (at === bytes.length - 9 ? byte ^ 1 : byte)),
  ],
  ['its end is cut off', (bytes: Buffer) => bytes.subarray(0, -8)],
])('a file of what was compiled in which %s is not given to V8', (_, damaged) => {
  const folder = folderOf(FILES);
  const first = new Parts();
  first.load(join(folder, 'two.js'));
  first.writeCaches([]);
  const cache = join(folder, `${process.version}-${process.arch}`, 'two.js');
  writeFileSync(cache, damaged(readFileSync(cache)));
  const second = new Parts();
  second.load(join(folder, 'two.js'));
  expect(second.scripts.get(join(folder, 'two.js'))?.cachedDataRejected).toBeUndefined();
});
