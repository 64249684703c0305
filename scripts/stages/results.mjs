// SPDX-License-Identifier: Apache-2.0
// Summarizes one vitest JSON report: `node scripts/stages/results.mjs REPORT EXIT_CODE` prints
// `passed failed skipped`, then a line for each test that failed, with the first line of its message. A file that could not be loaded has no tests to count, and a run can
// fail outside any test: each of these counts as one failure, so that nothing fails silently.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

const [path, exitCode] = process.argv.slice(2);
const report = readReport(path);
const failures = [...report.testResults.flatMap(failuresOf), ...unhandled()];
if (exitCode !== '0' && failures.length === 0)
  failures.push(`exit code ${exitCode} outside any test`);
console.log(report.numPassedTests, failures.length, report.numPendingTests + report.numTodoTests);
for (const failure of failures) console.log(failure);

/** Errors outside any test: no file that runs again excuses them. */
function unhandled() {
  try {
    const messages = JSON.parse(readFileSync(`${path}.unhandled`, 'utf8'));
    return messages.map((message) => `outside any test: ${firstLine(message)}`);
  } catch {
    return [];
  }
}

/** `test/unit/x.test.ts > group > title: message`; of a file that could not be loaded its path and message. */
function failuresOf(file) {
  const path = relative(process.cwd(), file.name);
  const failed = file.assertionResults.filter((test) => test.status === 'failed');
  if (failed.length > 0) {
    return failed.map((test) => {
      const title = [path, ...test.ancestorTitles, test.title].join(' > ');
      return `${title}: ${firstLine(test.failureMessages[0])}`;
    });
  }
  return file.status === 'failed' ? [`${path}: ${firstLine(file.message)}`] : [];
}

function firstLine(message) {
  return stripVTControlCharacters(message ?? '')
    .split('\n', 1)[0]
    .slice(0, 300);
}

/** The report, or an empty one if the run ended before it wrote one. */
function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return {
      numPassedTests: 0,
      numPendingTests: 0,
      numTodoTests: 0,
      testResults: [],
    };
  }
}
