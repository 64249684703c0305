// SPDX-License-Identifier: Apache-2.0
// Where figures go: into a JSON file, and from there into the generated parts of docs/bench.md, each between two comments that name its
// benchmark.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { packageRoot } from '../../src/sys/package.ts';

const DOCUMENT = join('docs', 'bench.md');

/** Progress, on standard error. */
export function tell(what: string): void {
  process.stderr.write(`bench: ${what}\n`);
}

export function writeReport(path: string, report: object): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(report, undefined, 2)}\n`);
}

interface Figures {
  readonly markdown: string;
  /** Of the benchmark's parts in the document. */
  readonly part?: string | undefined;
}

/** @param parts of the report in the file, as they are in the document of the benchmark */
export function writeDocument<Report>(
  json: string,
  bench: string,
  parts: (report: Report) => readonly Figures[],
): void {
  const report: Report = JSON.parse(readFileSync(json, 'utf8'));
  const path = join(packageRoot(), DOCUMENT);
  const document = parts(report).reduce(
    (text, { markdown, part }) => replaceFigures(text, markdown, bench, part),
    readFileSync(path, 'utf8'),
  );
  writeFileSync(path, document);
  tell(`${json} is now in ${DOCUMENT}`);
}

/** Throws if the document does not have the two comments, once each and in this order. */
export function replaceFigures(
  document: string,
  figures: string,
  bench: string,
  part?: string,
): string {
  const name = part === undefined ? bench : `${bench}, ${part}`;
  const begin = `<!-- ${name}: renewed by \`npm run ${bench} -- --document\` -->`;
  const end = `<!-- ${name} ends -->`;
  const [before, rest, ...more] = document.split(begin);
  const [, after, ...others] = rest?.split(end) ?? [];
  if (before === undefined || after === undefined || more.length + others.length > 0) {
    throw new Error(`the document needs one line "${begin}" and, after it, one line "${end}"`);
  }
  return `${before}${begin}\n\n${figures}\n\n${end}${after}`;
}
