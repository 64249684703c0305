#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// `scripts/docs/bench-plots.mjs FILE`: draws the pictures of docs/performance.md from the JSON of a run of `npm run bench`. Measures
// nothing.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PICTURES = ['connections', 'change', 'memory'];

const root = fileURLToPath(new URL('../..', import.meta.url));
const [file] = process.argv.slice(2);
if (file === undefined) {
  process.stderr.write('error: usage: scripts/docs/bench-plots.mjs FILE\n');
  process.exit(2);
}

const plots = join(root, 'docs', 'plots');
const program = join(root, 'build', 'tools', 'main.js');
mkdirSync(plots, { recursive: true });
for (const metric of PICTURES) {
  const drawn = ['bench', '--report', file, '-o', 'svg', '--metric', metric];
  writeFileSync(join(plots, `${metric}.svg`), execFileSync(process.execPath, [program, ...drawn]));
}
