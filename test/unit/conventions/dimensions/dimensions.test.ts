// SPDX-License-Identifier: Apache-2.0
// Each dimension that is off by default is a folder on each side: it is deleted here, in a copy of the tree, and the rest compiles.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readTree, type SourceFile } from '../source-file.ts';
import { checkDimension, DIMENSIONS, without } from './dimensions.ts';

const ROOT = new URL('../../../..', import.meta.url).pathname;
const tree = readTree(ROOT);
const product = tree.filter(({ path }) => /^(src|bpf)\//.test(path));

/** What tsc says of these files. */
async function compile(files: readonly SourceFile[]): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'fairlead-without-'));
  onTestFinished(() => rm(root, { recursive: true }));
  const config = tree.find(({ path }) => path === 'tsconfig.json');
  for (const { path, lines } of [...files, ...(config === undefined ? [] : [config])]) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), lines.join('\n'));
  }
  for (const name of ['node_modules', 'package.json', 'native'])
    await symlink(join(ROOT, name), join(root, name));
  const tsc = join(ROOT, 'node_modules/.bin/tsc');
  return promisify(execFile)(tsc, ['--noEmit', '-p', root]).then(
    () => '',
    ({ stdout }: { readonly stdout: string }) => stdout,
  );
}

describe.each(Object.entries(DIMENSIONS))('%s', (_, dimension) => {
  const { files, missing } = without(product, dimension);

  test('has the registrations that are known', () => {
    expect(missing).toEqual([]);
  });

  test('is named nowhere else', () => {
    const found = checkDimension(product, dimension);
    const text = found.map(({ path, line, reason }) => `${path}:${line}: ${reason}`);
    expect(text.join('\n')).toBe('');
  });

  test('has no seam that is none any more', () => {
    const { seams = [], ...rest } = dimension;
    const found = new Set(checkDimension(product, rest).map(({ path }) => path));
    expect(seams.filter((path) => !found.has(path))).toEqual([]);
  });

  test.skipIf(dimension.seams !== undefined)('can be deleted', async () => {
    expect(files.length).toBeLessThan(product.length);
    expect(await compile(files.filter(({ path }) => path.startsWith('src/')))).toBe('');
  });
});
