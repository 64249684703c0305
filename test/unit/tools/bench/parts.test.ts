// SPDX-License-Identifier: Apache-2.0
// A benchmark of parts still fits the parts. Runs after the build, whose output it imports.
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';

const root = new URL('../../../..', import.meta.url).pathname;

test('bench:sync follows changes, in memory', () => {
  // As the script of package.json.
  execFileSync('node_modules/.bin/tsc', ['-p', 'bench/tsconfig.json'], { cwd: root });
  const argv = ['bench/sync.bench.mjs', '--memory', '--changes', '10', '--json'];
  const printed = execFileSync(process.execPath, argv, { cwd: root, encoding: 'utf8' });
  const { changes, p50Ms, maxMs } = JSON.parse(printed) as Record<string, number>;
  expect(changes).toBe(10);
  expect(p50Ms).toBeGreaterThan(0);
  expect(maxMs).toBeGreaterThanOrEqual(p50Ms ?? 0);
});
