// SPDX-License-Identifier: Apache-2.0
// Would the tests notice? Applies each mutant of mutants.json, one line each, to a temporary copy of the product and runs
// the tests of lib, model, plan, the stories and the rules of both engines there. Prints `N of M caught`, and fails if too
// many survive. Quick tests first; the laws run only for mutants that survive them. `--only <number>` runs one.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** @typedef {{ file: string, search: string, replace: string, means: string }} Mutant */

const MOST_SURVIVORS = 2;
const TEST_TIMEOUT_MS = 120_000;
const top = join(import.meta.dirname, '../..');
/** Whole, because test/semantics.md names tests of every room; only these rooms run. */
const PARTS = ['src', 'test', 'docs', 'package.json', 'tsconfig.json'];
const ROOMS = [
  ...['test/conformance', 'test/unit/lib', 'test/unit/model', 'test/unit/plan'],
  // Not the goldens, which show every change: what is right is for the laws to find out.
  ...['test/unit/engines/iptables/laws', 'test/unit/engines/nftables/laws'],
];
const LAWS = [
  'test/unit/plan/laws.test.ts',
  ...['iptables', 'nftables'].map((engine) => `test/unit/engines/${engine}/laws/random.test.ts`),
];

const CONFIG = `import { defineConfig } from 'vitest/config';
const include = ${JSON.stringify(ROOMS.map((room) => `${room}/**/*.test.ts`))};
export default defineConfig({ test: { include, pool: 'forks', maxWorkers: 1, testTimeout: 60000 } });
`;

function copyOfProduct() {
  const copy = mkdtempSync(join(tmpdir(), 'fairlead-mutants-'));
  for (const part of PARTS) {
    cpSync(join(top, part), join(copy, part), { recursive: true });
  }
  symlinkSync(join(top, 'node_modules'), join(copy, 'node_modules'));
  writeFileSync(join(copy, 'vitest.config.ts'), CONFIG);
  return copy;
}

/** @param {string} copy @param {readonly string[]} args @returns {boolean} did all tests pass? */
function passes(copy, args) {
  const vitest = join(top, 'node_modules/vitest/vitest.mjs');
  const run = spawnSync(
    process.execPath,
    [vitest, 'run', '--bail', '1', '--reporter', 'dot', ...args],
    {
      cwd: copy,
      timeout: TEST_TIMEOUT_MS,
    },
  );
  if (run.error !== undefined && run.signal === null) throw run.error;
  return run.status === 0;
}

/** @param {string} copy @param {Mutant} mutant @returns {boolean} */
function isCaught(copy, mutant) {
  const path = join(copy, mutant.file);
  const original = readFileSync(path, 'utf8');
  if (original.split(mutant.search).length !== 2) {
    throw new Error(`${mutant.file} does not have exactly one: ${mutant.search}`);
  }
  writeFileSync(
    path,
    original.replace(mutant.search, () => mutant.replace),
  );
  try {
    return (
      !passes(
        copy,
        LAWS.flatMap((law) => ['--exclude', law]),
      ) || !passes(copy, LAWS)
    );
  } finally {
    writeFileSync(path, original);
  }
}

function main() {
  /** @type {readonly Mutant[]} */
  const all = JSON.parse(readFileSync(join(import.meta.dirname, 'mutants.json'), 'utf8'));
  const only = process.argv.indexOf('--only');
  const chosen = only < 0 ? all : all.slice(Number(process.argv[only + 1]) - 1).slice(0, 1);
  const copy = copyOfProduct();
  try {
    if (!passes(copy, [])) throw new Error('the tests fail without mutants');
    const alive = chosen.filter((mutant) => {
      const caught = isCaught(copy, mutant);
      console.log(`${caught ? 'caught ' : 'ALIVE  '} ${mutant.file}: ${mutant.means}`);
      return !caught;
    });
    console.log(`${chosen.length - alive.length} of ${chosen.length} mutants caught`);
    if (alive.length > MOST_SURVIVORS) process.exitCode = 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

main();
