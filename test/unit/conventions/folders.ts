// SPDX-License-Identifier: Apache-2.0
// How many files a folder may hold before a reader no longer finds the one meant by its name.
import { posix } from 'node:path';
import type { SourceFile, Violation } from './source-file.ts';

const MOST_FILES = 14;

/** Folders of the program, its scripts, tests and benchmarks; below them each subfolder is counted for itself. */
const COUNTED = /^(src|tools|native|bpf|scripts|test|bench)\//;

/** Files that tests write, one for each story, and find by its name. */
const WRITTEN = /\/goldens\//;

export function checkFolders(files: readonly SourceFile[]): readonly Violation[] {
  const counts = new Map<string, number>();
  for (const { path } of files.filter(({ path }) => COUNTED.test(path) && !WRITTEN.test(path))) {
    const folder = posix.dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > MOST_FILES)
    .map(([path, count]) => ({
      path,
      line: 1,
      reason: `${count} files, at most ${MOST_FILES}: give what belongs together a subfolder that says so`,
    }));
}
