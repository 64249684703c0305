// SPDX-License-Identifier: Apache-2.0
// Each dimension that is off by default is a folder on each side: it is deleted here, in a copy of the tree, and the rest
// compiles, in TypeScript and in C. Of one that has seams, all but these compile.
import { execFile, spawnSync } from 'node:child_process';
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

/** A folder with these files alone. */
async function copyOf(files: readonly SourceFile[]): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'fairlead-without-'));
  onTestFinished(() => rm(root, { recursive: true }));
  for (const { path, lines } of files) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), lines.join('\n'));
  }
  return root;
}

/** What tsc says of these files. */
async function compile(files: readonly SourceFile[]): Promise<string> {
  const root = await copyOf([...files, ...tree.filter(({ path }) => path === 'tsconfig.json')]);
  for (const name of ['node_modules', 'package.json', 'native'])
    await symlink(join(ROOT, name), join(root, name));
  const tsc = join(ROOT, 'node_modules/.bin/tsc');
  return promisify(execFile)(tsc, ['--noEmit', '-p', root], { cwd: root }).then(
    () => '',
    ({ stdout }: { readonly stdout: string }) => stdout,
  );
}

const PROGRAM = /^bpf\/(packet|socket|probe)\/.*\.bpf\.c$/;
/** As in bpf/Makefile. */
const CLANG = ['clang-19', 'clang'].find((name) => spawnSync(name, ['--version']).status === 0);
const ARCH_HEADERS = `/usr/include/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;

/** What clang says of these programs. */
async function compileC(files: readonly SourceFile[]): Promise<string> {
  const root = await copyOf(files);
  const programs = files.map(({ path }) => path).filter((path) => PROGRAM.test(path));
  expect(programs.length).toBeGreaterThan(5);
  const flags = ['-O2', '-target', 'bpf', '-mcpu=v3', '-std=gnu11', '-Wall', '-Wextra', '-Werror'];
  const found = programs.map((path) =>
    promisify(execFile)(
      CLANG ?? 'clang',
      [...flags, '-fsyntax-only', '-I.', '-idirafter', ARCH_HEADERS, path.replace(/^bpf\//, '')],
      { cwd: join(root, 'bpf') },
    ).then(
      () => '',
      ({ stderr }: { readonly stderr: string }) => stderr,
    ),
  );
  return (await Promise.all(found)).join('');
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

  test('can be deleted but for its seams', async () => {
    expect(files.length).toBeLessThan(product.length);
    const said = await compile(files.filter(({ path }) => path.startsWith('src/')));
    const lines = said.split('\n').filter((line) => /^\S/.test(line));
    const isOfSeam = (line: string): boolean =>
      (dimension.seams ?? []).some((path) => line.startsWith(`${path}(`));
    expect(lines.filter((line) => !isOfSeam(line))).toEqual([]);
  });

  const ofC = dimension.folders.filter((folder) => folder.startsWith('bpf/'));
  const isCut = dimension.seams?.some((path) => path.startsWith('bpf/')) !== true;
  test.runIf(CLANG !== undefined && ofC.length > 0 && isCut)('can be deleted in C', async () => {
    const rest = files.filter(({ path }) => path.startsWith('bpf/'));
    expect(rest.length).toBeLessThan(product.filter(({ path }) => path.startsWith('bpf/')).length);
    expect(await compileC(rest)).toBe('');
  });
});
