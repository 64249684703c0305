// SPDX-License-Identifier: Apache-2.0
// What failed beside other lanes runs once more, alone: it is listed, and counted by how it ends then.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'fairlead-alone-'));
const results = join(folder, 'results');
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => {
  rmSync(results, { recursive: true, force: true });
  mkdirSync(results, { recursive: true });
});

const FILE = 'test/integration/netns/a.test.ts';

/** A vitest that fails in these files unless it is given one file, and then in those of `alone`. */
function fakeVitest(failing: readonly string[], alone: readonly string[], outside = ''): void {
  const program = `#!/usr/bin/env node
    const { writeFileSync } = require('node:fs');
    const files = process.argv.filter((word) => word.endsWith('.test.ts'));
    const report = process.argv.find((word) => word.startsWith('--outputFile.json=')).slice(18);
    const failing = files.length > 0 ? files.filter((file) => ${JSON.stringify(alone)}.includes(file)) : ${JSON.stringify(failing)};
    const testResults = failing.map((file) => ({
      name: require('node:path').resolve(file), status: 'failed', message: '',
      assertionResults: [{ status: 'failed', ancestorTitles: [], title: 'late', failureMessages: ['Error: ' + process.env.WHY] }],
    }));
    if (files.length === 0 && ${JSON.stringify(outside)} !== '')
      writeFileSync(process.env.FAIRLEAD_UNHANDLED, JSON.stringify([${JSON.stringify(outside)}]));
    writeFileSync(report, JSON.stringify({ numPassedTests: 7, numPendingTests: 0, numTodoTests: 0, testResults }));
    process.exit(failing.length > 0 ? 1 : 0);`;
  writeFileSync(join(folder, 'vitest'), program, { mode: 0o755 });
}

function play(stages: readonly string[]): { readonly printed: string; readonly counts: string } {
  const script = `
    set -euo pipefail
    source scripts/lib.sh
    source scripts/stages/stages.sh
    source scripts/stages/alone.sh
    reports=${folder} results=${results} PATH=${folder}:$PATH
    add() { printf '%s\\n' "$*" >>"$results/counts"; }
    ${stages.map((stage) => `run ${stage} netns WHY='two words'`).join('\n')}
    again
    cat "$results/failures"`;
  const { stdout, stderr } = spawnSync('bash', ['-c', script, 'scripts/test'], {
    encoding: 'utf8',
    cwd: resolve('.'),
  });
  const counts = readFileSync(join(results, 'counts'), 'utf8').replace(/ \d+ s$/gm, '');
  return { printed: `${stdout}${stderr}`, counts };
}

const listed = (name: string): string => {
  try {
    return readFileSync(join(results, name), 'utf8');
  } catch {
    return '';
  }
};

test('it passes: its failures count as passed, and are listed', () => {
  fakeVitest([FILE], []);
  const { counts } = play(['netns']);
  expect(counts).toBe('netns 8 0 0\n');
  expect(listed('passed-alone')).toBe(`netns: ${FILE} > late: Error: two words\n`);
  expect(listed('failures')).toBe('');
});

test('it fails again: it stays failed', () => {
  fakeVitest([FILE, 'test/b.test.ts'], [FILE]);
  const { counts, printed } = play(['netns']);
  expect(counts).toBe('netns 8 1 0\n');
  expect(printed).toContain(`${FILE} fails alone as well`);
  expect(listed('passed-alone')).toBe('netns: test/b.test.ts > late: Error: two words\n');
  expect(listed('failures')).toBe(`netns: ${FILE} > late: Error: two words\n`);
});

test('an error outside any test stays, whatever runs again', () => {
  fakeVitest([FILE], [], 'Error: left behind');
  const { counts } = play(['netns']);
  expect(counts).toBe('netns 8 1 0\n');
  expect(listed('failures')).toBe('netns: outside any test: Error: left behind\n');
});

test('the file of two stages: each runs for itself', () => {
  fakeVitest([FILE], []);
  const { counts } = play(['native', 'asan']);
  expect(counts).toBe('native 8 0 0\nasan 8 0 0\n');
});

test('so many that it is no chance: none runs again', () => {
  const many = Array.from({ length: 7 }, (_, n) => `test/${n}.test.ts`);
  fakeVitest(many, []);
  const { counts, printed } = play(['netns']);
  expect(counts).toBe('netns 7 7 0\n');
  expect(printed).toContain('more than 6 files failed: none runs again');
});
