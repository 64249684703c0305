// SPDX-License-Identifier: Apache-2.0
// Evaluates the rules of deploy/prometheus on scrapes of live agents. Builds Prometheus' engine into the user's
// cache, once per version of its sources; without Go the tests that need it are skipped with a message.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../src/sys/exec.ts';

const MODULE = fileURLToPath(new URL('promql', import.meta.url));
const RULES = fileURLToPath(new URL('../../deploy/prometheus/rules.yaml', import.meta.url));
const BUILD_TIMEOUT_MS = 15 * 60_000;

export type Promql =
  | { readonly isReady: true; readonly program: string }
  | { readonly isReady: false; readonly reason: string };

/** The build may take minutes, so test files await it at the top level. Throws if the build fails. */
export async function preparePromql(): Promise<Promql> {
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'fairlead/promql');
  const hash = createHash('sha256');
  for (const file of ['main.go', 'go.mod', 'go.sum']) hash.update(readFileSync(join(MODULE, file)));
  const program = join(cache, hash.digest('hex').slice(0, 16));
  if (existsSync(program)) return { isReady: true, program };
  if ((await run('go', ['version'])).code !== 0) {
    const reason = 'needs Go 1.21 or newer, once, to build the engine of Prometheus';
    process.stderr.write(`\n=== alert tests SKIPPED: ${reason}\n\n`);
    return { isReady: false, reason };
  }
  process.stderr.write('building the engine of Prometheus (two minutes of CPU, once)\n');
  mkdirSync(cache, { recursive: true });
  const fresh = `${program}.${process.pid}`;
  const build = ['-C', MODULE, 'build', '-mod=readonly', '-buildvcs=false', '-o', fresh, '.'];
  const options = { timeoutMs: BUILD_TIMEOUT_MS };
  const { code, stderr } = await run('nice', ['-n', '15', 'go', ...build], options);
  if (code !== 0) throw new Error(`go build: code ${code}: ${stderr}`);
  renameSync(fresh, program);
  return { isReady: true, program };
}

/** Alert -> seconds of this state after which it fires. */
export type Firing = Readonly<Record<string, number>>;

/**
 * @param states by name, pages in the order they were scraped; the last page is what lasts
 * @param lastAtMs when the last pages were scraped, ms since the epoch
 */
export async function evaluateAlerts(
  program: string,
  states: Readonly<Record<string, readonly string[]>>,
  lastAtMs: number,
): Promise<Readonly<Record<string, Firing>>> {
  const stdin = JSON.stringify({ rules: RULES, states, lastAtMs });
  const { code, stdout, stderr } = await run(program, [], { stdin });
  if (code !== 0) throw new Error(`promql: code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}
