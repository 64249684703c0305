// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'fairlead-results-'));
afterAll(() => rmSync(folder, { recursive: true }));

const passed = { status: 'passed', ancestorTitles: [], title: 'passes', failureMessages: [] };
const failed = {
  status: 'failed',
  ancestorTitles: ['sockets'],
  title: 'connect',
  failureMessages: ['\u001b[31mError: refused\u001b[39m\n    at connect'],
};

function results(testResults: readonly object[], exitCode: number): readonly string[] {
  const path = join(folder, 'report.json');
  const totals = { numPassedTests: 3, numPendingTests: 1, numTodoTests: 1 };
  writeFileSync(path, JSON.stringify({ ...totals, testResults }));
  return run(path, exitCode);
}

const run = (path: string, exitCode: number): readonly string[] =>
  execFileSync('node', ['scripts/stages/results.mjs', path, String(exitCode)], { encoding: 'utf8' })
    .trimEnd()
    .split('\n');

const file = (name: string, status: string, tests: readonly object[], message = ''): object => ({
  name: resolve(name),
  status,
  message,
  assertionResults: tests,
});

test('a failed test is named, with the first line of its message', () => {
  expect(results([file('test/a.test.ts', 'failed', [passed, failed])], 1)).toEqual([
    '3 1 2',
    'test/a.test.ts > sockets > connect: Error: refused',
  ]);
});

test('a file that could not be loaded counts as one failure', () => {
  expect(results([file('test/a.test.ts', 'failed', [], 'SyntaxError: x\nthere')], 1)).toEqual([
    '3 1 2',
    'test/a.test.ts: SyntaxError: x',
  ]);
});

test('a run that failed outside any test counts as one failure', () => {
  expect(results([file('test/a.test.ts', 'passed', [passed])], 1)).toEqual([
    '3 1 2',
    'exit code 1 outside any test',
  ]);
});

test('a run without a report counts as one failure', () => {
  expect(run(join(folder, 'none.json'), 7)).toEqual(['0 1 0', 'exit code 7 outside any test']);
});

test('a run that passed names nothing', () => {
  expect(results([file('test/a.test.ts', 'passed', [passed])], 0)).toEqual(['3 0 2']);
});
