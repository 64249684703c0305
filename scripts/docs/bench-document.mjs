#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// `scripts/docs/bench-document.mjs FILE`: makes the report of a run of `fairlead bench` that of docs/bench.md: its JSON and its
// plots in docs/plots, its tables between two marks of the page. Measures nothing.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const [file] = process.argv.slice(2);
if (file === undefined) {
  process.stderr.write('error: usage: scripts/docs/bench-document.mjs FILE\n');
  process.exit(2);
}

const rendered = (format) =>
  execFileSync(
    process.execPath,
    [join(root, 'build', 'tools', 'main.js'), 'bench', '--report', file, '-o', format],
    {
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    },
  );

const MARKS = /(<!-- fairlead bench: [^>]*-->\n)[\s\S]*?(<!-- fairlead bench ends -->)/;
const plots = join(root, 'docs', 'plots');
const page = join(root, 'docs', 'bench.md');
const text = readFileSync(page, 'utf8');
if (!MARKS.test(text)) throw new Error(`${page} has no marks of fairlead bench`);
const tables = rendered('markdown');
mkdirSync(plots, { recursive: true });
writeFileSync(join(plots, 'bench.svg'), rendered('svg'));
copyFileSync(file, join(plots, 'bench.json'));
writeFileSync(
  page,
  text.replace(MARKS, (_, begin, end) => `${begin}\n${tables}\n${end}`),
);
