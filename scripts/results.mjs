// SPDX-License-Identifier: Apache-2.0
// Summarizes one vitest JSON report: `node scripts/results.mjs REPORT EXIT_CODE` prints
// `passed failed skipped`. A file that could not be loaded has no tests to count, and a run can
// fail outside any test: each of these counts as one failure, so that nothing fails silently.
import { readFileSync } from 'node:fs';

const [path, exitCode] = process.argv.slice(2);
const report = readReport(path);
let failed = report.numFailedTests;
for (const file of report.testResults) {
  const hasFailedTest = file.assertionResults.some((test) => test.status === 'failed');
  if (file.status === 'failed' && !hasFailedTest) failed += 1;
}
if (exitCode !== '0' && failed === 0) failed = 1;
console.log(report.numPassedTests, failed, report.numPendingTests + report.numTodoTests);

/** The report, or an empty one if the run ended before it wrote one. */
function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return {
      numPassedTests: 0,
      numFailedTests: 0,
      numPendingTests: 0,
      numTodoTests: 0,
      testResults: [],
    };
  }
}
