// SPDX-License-Identifier: Apache-2.0
// C programs of tests, compiled once for each version of their sources into build/test-programs. There a virtual machine that has the
// files of this one finds them, whose emulated processor would need half a minute for each.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { runSync } from '../../../src/sys/exec.ts';
import { packageRoot } from '../../../src/sys/package.ts';

const FLAGS = ['-O2', '-Wall', '-Wextra', '-Werror'];

/** @returns its path */
export function compiled(source: string): string {
  const folder = join(packageRoot(), 'build/test-programs', digestOf(source));
  const program = join(folder, basename(source, '.c'));
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const fresh = `${program}.${process.pid}`;
  const { code, stderr } = runSync('cc', [...FLAGS, '-o', fresh, source]);
  if (code !== 0) throw new Error(`cc ${source}: ${stderr.trim()}`);
  renameSync(fresh, program);
  return program;
}

/** Of the source, and of the headers beside it. */
function digestOf(source: string): string {
  const folder = dirname(source);
  const headers = readdirSync(folder).filter((name) => name.endsWith('.h'));
  const hash = createHash('sha256');
  for (const name of [basename(source), ...headers.sort()]) {
    hash.update(name).update(readFileSync(join(folder, name)));
  }
  return hash.digest('hex').slice(0, 16);
}
