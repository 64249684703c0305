// SPDX-License-Identifier: Apache-2.0
// Where figures go: into a JSON file, and from there to standard output as tables of Markdown.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Progress, on standard error. */
export function tell(what: string): void {
  process.stderr.write(`bench: ${what}\n`);
}

export function writeReport(path: string, report: object): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(report, undefined, 2)}\n`);
}

/** @param parts the tables of the report in the file */
export function printMarkdown<Report>(
  json: string,
  parts: (report: Report) => readonly string[],
): void {
  const report: Report = JSON.parse(readFileSync(json, 'utf8'));
  process.stdout.write(`${parts(report).join('\n\n')}\n`);
}
