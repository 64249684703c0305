// SPDX-License-Identifier: Apache-2.0
// The addon as a package: packed, installed into an empty folder, which builds it, and used as its README shows.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { insideCgroup } from '../../../src/sys/cgroup.ts';
import { addonPath } from './support/child.ts';
import { compile, missing, plainEnv } from './support/fixture.ts';
import { makeBpffs, makeCgroup } from './support/resources.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const SOURCES = join(ROOT, 'native');
/** What is in the folder for the checkout alone. */
const KEPT_BACK = ['.clang-format', 'lsan.supp'];

/** The code of this language in the README, in its order. */
const examples = (language: string): string[] =>
  [...readFileSync(join(SOURCES, 'README.md'), 'utf8').matchAll(/^```(\w+)\n(.*?)^```$/gms)]
    .filter((found) => found[1] === language)
    .map((found) => found[2] ?? '');

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((path) => !/^(build|node_modules)\//.test(path))
    .sort();
}

// The sanitizers are for the addon of the checkout, which the other files test.
describe.skipIf(missing !== undefined || addonPath.includes('asan'))('the package', () => {
  let home = '';
  const installed = () => join(home, 'node_modules/@fairlead/libbpf');
  const runIn = (program: string, args: readonly string[]): string =>
    execFileSync(program, args, {
      cwd: home,
      encoding: 'utf8',
      env: { ...plainEnv(), CXXFLAGS: '-O0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });

  beforeAll(() => {
    home = mkdtempSync(join(tmpdir(), `flt${process.pid}-`));
    const archive = runIn('npm', ['pack', '--silent', SOURCES]).trim();
    // What it depends on is here already: without a network.
    const needed = ['node-addon-api', 'node-api-headers'].map((name) =>
      join(ROOT, 'node_modules', name),
    );
    writeFileSync(join(home, 'package.json'), '{}');
    const options = ['--offline', '--install-links', '--no-audit', '--no-fund'];
    runIn('npm', ['install', ...options, `./${archive}`, ...needed]);
    // It compiles the addon: half a minute on two idle cores.
  }, 600_000);
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  test('it has all files of its folder, but what only the checkout needs', () => {
    const all = filesBelow(SOURCES).filter((path) => !KEPT_BACK.includes(path));
    expect(filesBelow(installed())).toEqual(all);
    expect(all).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'build.sh', 'index.d.ts']));
  });

  test('its module has all functions of the addon, and its types have the same', () => {
    const program = `import * as all from '@fairlead/libbpf'; console.log(JSON.stringify(Object.keys(all)));`;
    const names = JSON.parse(runIn(process.execPath, ['--input-type=module', '-e', program]));
    const built = createRequire(import.meta.url)(addonPath) as object;
    const typed = /^ {2}([a-z]\w*),$/gm;
    const types = readFileSync(join(installed(), 'index.d.ts'), 'utf8').matchAll(typed);
    expect(names.sort()).toEqual(Object.keys(built).sort());
    expect([...types].map((found) => found[1]).sort()).toEqual(names);
  });

  test('the examples of its README do what they say', () => {
    const [source = ''] = examples('c');
    const [attach = '', counts = '', events = ''] = examples('js');
    const programs = { 'attach.mjs': attach, 'counts.mjs': counts, 'events.mjs': events };
    for (const [name, text] of Object.entries(programs)) writeFileSync(join(home, name), text);
    writeFileSync(join(home, 'connects.bpf.c'), source);
    compile(join(home, 'connects.bpf.c'), join(home, 'connects.bpf.o'));
    const [cgroup, pins] = [makeCgroup(), makeBpffs()];
    const attached = runIn(process.execPath, ['attach.mjs', cgroup.path, pins.path]);
    expect(attached).toBe('attached as cgroup link\n');
    // To a port that nobody answers on: the program has run before.
    const connecting = `require('node:net').connect(1, '127.0.0.7').on('error', () => {})`;
    const [shell = '', ...args] = insideCgroup(cgroup.path, [process.execPath, '-e', connecting]);
    runIn(shell, args);
    expect(runIn(process.execPath, ['counts.mjs', pins.path])).toBe('127.0.0.7 1n\n');
    const seen = runIn(process.execPath, ['events.mjs', pins.path]);
    expect(seen).toBe('connect to 127.0.0.7\n');
    pins.release();
    cgroup.release();
  });
});
