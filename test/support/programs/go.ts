// SPDX-License-Identifier: Apache-2.0
// Programs in Go that only tests need, built into the user's cache once per version of their sources. Without Go the
// tests that need one are skipped with a message.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/sys/exec.ts';

const BUILD_TIMEOUT_MS = 30 * 60_000;

export interface GoProgram {
  /** Folder of the module beside this file, and of the program in the cache. */
  readonly name: string;
  readonly files: readonly string[];
  /** The package to build. */
  readonly target: string;
  /** For messages: `the engine of Prometheus`. */
  readonly what: string;
}

export type Prepared =
  | { readonly isReady: true; readonly program: string }
  | { readonly isReady: false; readonly reason: string };

/** The build may take minutes, so test files await it at the top level. Throws if the build fails. */
export async function prepareGoProgram({
  name,
  files,
  target,
  what,
}: GoProgram): Promise<Prepared> {
  const module = fileURLToPath(new URL(name, import.meta.url));
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  const folder = join(cache, 'fairlead', name);
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(join(module, file)));
  const program = join(folder, hash.digest('hex').slice(0, 16));
  if (existsSync(program)) return { isReady: true, program };
  if ((await run('go', ['version'])).code !== 0) {
    const reason = `needs Go 1.21 or newer, once, to build ${what}`;
    process.stderr.write(`\n=== tests SKIPPED: ${reason}\n\n`);
    return { isReady: false, reason };
  }
  process.stderr.write(`building ${what} (once)\n`);
  mkdirSync(folder, { recursive: true });
  const fresh = `${program}.${process.pid}`;
  const flags = ['-mod=readonly', '-trimpath', '-buildvcs=false', '-ldflags=-s -w', '-o', fresh];
  const go = ['CGO_ENABLED=0', 'GOFLAGS=', 'GOWORK=off', 'nice', '-n', '15', 'go', '-C', module];
  const options = { timeoutMs: BUILD_TIMEOUT_MS };
  const { code, stderr } = await run('env', [...go, 'build', ...flags, target], options);
  if (code !== 0) throw new Error(`go build of ${what}: code ${code}: ${stderr}`);
  renameSync(fresh, program);
  return { isReady: true, program };
}
