// SPDX-License-Identifier: Apache-2.0
// A folder that is moved or replaced while it is walked: what is missing then is not deleted.
import { mkdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { listManifests } from '../../../../src/source/manifests/files.ts';
import { folder, service } from './folder.ts';

/** Walks a folder, in which `a` is visited before `b.yaml` and `c` are; then `between` happens. */
async function walk(between: (path: string) => void) {
  const { path } = await folder({
    'a/x.yaml': service('x'),
    'b.yaml': service('b'),
    'c/y.yaml': service('y'),
  });
  onTestFinished(() => rm(`${path}.moved`, { recursive: true, force: true }));
  let isDone = false;
  const listing = await listManifests(path, (visited) => {
    if (isDone || visited !== join(path, 'a')) return;
    isDone = true;
    between(path);
  });
  expect(isDone).toBe(true);
  return { files: listing.found.map((found) => found.path.slice(path.length + 1)), listing };
}

test('a folder that stays is known completely', async () => {
  const { files, listing } = await walk(() => undefined);
  expect(files).toEqual(['a/x.yaml', 'b.yaml', 'c/y.yaml']);
  expect(listing.isComplete).toBe(true);
});

test('a folder that is moved away meanwhile is not', async () => {
  const { listing } = await walk((path) => renameSync(path, `${path}.moved`));
  expect(listing.isComplete).toBe(false);
});

test('a folder that another one takes the place of is not', async () => {
  const { files, listing } = await walk((path) => {
    renameSync(path, `${path}.moved`);
    mkdirSync(path);
  });
  expect(files).not.toContain('b.yaml');
  expect(listing.isComplete).toBe(false);
});

test('a sub-folder that is replaced after its listing makes it incomplete, one that is gone before does not', async () => {
  const replaced = await walk((path) => {
    renameSync(join(path, 'a'), `${path}.moved`);
    mkdirSync(join(path, 'a'));
  });
  expect(replaced.listing.isComplete).toBe(false);
  const gone = await walk((path) => renameSync(join(path, 'c'), `${path}.moved`));
  expect(gone.listing.isComplete).toBe(true);
});
