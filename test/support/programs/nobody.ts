// SPDX-License-Identifier: Apache-2.0
// A user without privileges who runs the program, also where only root can read this checkout, as below /root.
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { runSync } from '../../../src/sys/exec.ts';
import { packageRoot } from '../../../src/sys/package.ts';

/** Runs what follows it as that user. */
export const NOBODY: readonly string[] = [
  ...['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--inh-caps=-all'],
];

/** What the program is, of a checkout. */
const PARTS = [
  'package.json',
  'dist',
  'build/bpf',
  'build/tools',
  'build/native/fairlead.node',
  'examples',
];

const mayTry = (flag: '-r' | '-x', path: string): boolean => {
  const [program = '', ...args] = NOBODY;
  return runSync(program, [...args, 'test', flag, path]).code === 0;
};

/**
 * main.js where that user can read it: a copy, which the tests of this file share, if the checkout is closed to others.
 * @param file from the root of the checkout; by default that of the product
 */
export function readableMain(file = 'dist/main.js'): string {
  const main = join(packageRoot(), file);
  if (!mayTry('-x', process.execPath)) {
    throw new Error(
      `only root can run ${process.execPath}: install Node where every user can run it`,
    );
  }
  if (mayTry('-r', main)) return main;
  const copy = mkdtempSync(join(tmpdir(), 'fairlead-readable-'));
  afterAll(() => rmSync(copy, { recursive: true }));
  chmodSync(copy, 0o755);
  for (const part of PARTS) {
    cpSync(join(packageRoot(), part), join(copy, part), { recursive: true });
  }
  return join(copy, file);
}
