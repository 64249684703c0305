// SPDX-License-Identifier: Apache-2.0
// Runs test files of other stages in a virtual machine, and declares a test here for each of theirs: passed, failed with its
// message, or skipped with its reason.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Guest } from './guest.ts';

export interface GuestSuite {
  readonly name: string;
  /** Test files, below the root of the tree, of any of vitest's projects. */
  readonly files: readonly string[];
  /** Of vitest's projects; without them those that the files belong to. */
  readonly projects?: readonly string[];
  /** Only tests whose full name matches (`--testNamePattern`). */
  readonly only?: string;
  /** false: files share what they import. */
  readonly isolate?: boolean;
  readonly environment?: Readonly<Record<string, string>>;
}

export interface GuestTest {
  readonly file: string;
  readonly name: string;
  readonly state: 'passed' | 'failed' | 'skipped' | 'pending';
  /** Why it was skipped. */
  readonly note?: string;
  readonly message?: string;
  /** By the clock of the virtual machine. */
  readonly seconds: number;
}

export interface GuestReport {
  readonly tests: readonly GuestTest[];
  /** All ended, and vitest wrote its report. */
  readonly isWhole: boolean;
  readonly output: string;
}

let runs = 0;

export async function runVitest(guest: Guest, suite: GuestSuite): Promise<GuestReport> {
  runs += 1;
  const path = join(guest.folder, `report-${runs}.jsonl`);
  const { files, projects, only, isolate } = suite;
  const argv = [
    ...['env', 'CI=1', ...Object.entries(suite.environment ?? {}).map((one) => one.join('='))],
    ...['node', 'test/integration/kernels/tests.mjs', path],
    JSON.stringify({ files, projects, only, isolate }),
  ];
  const { output } = await guest.run(suite.name, argv.map(quoted).join(' '));
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
  const written = lines.map((line): GuestTest | 'end' => JSON.parse(line));
  return {
    tests: written.filter((line) => line !== 'end'),
    isWhole: written.at(-1) === 'end',
    output,
  };
}

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

/** Call it where tests are collected, after an await at the top of a file. */
export function declareTests(guest: Guest, suite: string, report: GuestReport): void {
  describe(`${guest.name}: ${suite}`, () => {
    for (const { file, name, state, note, message } of report.tests) {
      test(`${file} > ${name}`, (context) => {
        if (state === 'skipped' || state === 'pending') context.skip(note ?? 'by its own file');
        if (state === 'failed') throw new Error(message);
      });
    }
    test('all files ran to their end', () => {
      expect(report.isWhole, report.output.slice(-4_000)).toBe(true);
      expect(report.tests.length).toBeGreaterThan(0);
    });
  });
}
