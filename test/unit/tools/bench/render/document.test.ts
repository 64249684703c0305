// SPDX-License-Identifier: Apache-2.0
// docs/bench.md shows the report in docs/plots as it is rendered today: else `scripts/docs/bench-document.mjs docs/plots/bench.json`.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { reportSvg } from '../../../../../tools/bench/render/svg/figure.ts';
import { reportMarkdown } from '../../../../../tools/bench/render/table.ts';
import { parseReport } from '../../../../../tools/bench/report/read.ts';

const read = (path: string): string =>
  readFileSync(new URL(`../../../../../docs/${path}`, import.meta.url), 'utf8');

test('the tables and the plots of docs/bench.md are those of docs/plots/bench.json', () => {
  const report = parseReport(read('plots/bench.json'), 'docs/plots/bench.json');
  expect(read('bench.md')).toContain(reportMarkdown(report));
  expect(read('plots/bench.svg')).toBe(reportSvg(report));
});
