// SPDX-License-Identifier: Apache-2.0
// A report in every format, as goldens: `npx vitest run -u` writes them anew, and a reader looks at them.
import { expect, test } from 'vitest';
import { reportHtml } from '../../../../../tools/bench/render/page/page.ts';
import { reportMarkdown, reportText } from '../../../../../tools/bench/render/report-text.ts';
import { metricSvg, reportSvg } from '../../../../../tools/bench/render/svg/figure.ts';
import { element } from '../../../../../tools/bench/render/svg/markup.ts';
import { scaleOf } from '../../../../../tools/bench/render/svg/scale.ts';
import { COLUMN_LABELS } from '../../../../../tools/bench/report/types.ts';
import { SAMPLE } from '../report/sample.ts';

/** One element a line, so that a change of one shows as one. */
const broken = (markup: string): string => markup.replaceAll('><', '>\n<');

test.each([
  { name: 'sample.txt', text: `${reportText(SAMPLE)}\n` },
  { name: 'sample.md', text: `${reportMarkdown(SAMPLE)}\n` },
  { name: 'sample.svg.txt', text: broken(reportSvg(SAMPLE)) },
  { name: 'sample.html.txt', text: broken(reportHtml(SAMPLE)) },
])('$name', async ({ name, text }) => {
  await expect(text).toMatchFileSnapshot(`goldens/${name}`);
});

test('the page is complete in itself: it refers to nothing outside', () => {
  expect(reportHtml(SAMPLE)).not.toMatch(/<script|<link|@import|url\(|src=|href=/);
});

test('the picture has its colours also where var() is unknown: librsvg, Inkscape', () => {
  expect(reportSvg(SAMPLE)).not.toContain('var(');
});

test('nothing of the machine or of a reason becomes markup', () => {
  const report = { ...SAMPLE, skipped: { none: '<b>&"' } };
  expect(reportHtml(report)).toContain('&lt;b&gt;&amp;&quot;');
  for (const text of [reportHtml(report), reportSvg(report)]) expect(text).not.toMatch(/<8>|<b>/);
  expect(element('a', { b: '"<' })).toBe('<a b="&quot;&lt;"/>');
});

test('a report of one column and one size has plots, too', () => {
  const [size] = SAMPLE.sizes;
  const { roll: _, ...rest } = SAMPLE;
  const svg = reportSvg({ ...rest, columns: ['none'], sizes: [size!] });
  expect(svg).toContain('New connections');
  expect(svg).not.toContain('Start');
  expect(svg).not.toContain('NaN');
});

test('one metric is a picture of its own, with the columns that have it', () => {
  const svg = metricSvg(SAMPLE, 'change');
  expect(svg).toContain('aria-label="One change"');
  expect(svg).not.toContain('New connections');
  const named = (text: string): string[] =>
    Object.values(COLUMN_LABELS).filter((label) => text.includes(`>${label}</text>`));
  expect(named(svg)).not.toContain(COLUMN_LABELS.none);
  expect(named(svg).length).toBeGreaterThan(1);
  expect(named(metricSvg(SAMPLE, 'connections'))).toContain(COLUMN_LABELS.none);
  expect(metricSvg({ ...SAMPLE, sizes: [] }, 'change')).not.toContain('<polyline');
});

test.each([
  { values: [3, 97], isLogarithmic: true, ticks: [1, 10, 100] },
  { values: [11_000, 14_100], isLogarithmic: false, ticks: [0, 5_000, 10_000, 15_000] },
  { values: [0.2, 0.9], isLogarithmic: false, ticks: [0, 0.25, 0.5, 0.75, 1] },
  { values: [0], isLogarithmic: false, ticks: [0, 0.25, 0.5, 0.75, 1] },
  { values: [], isLogarithmic: false, ticks: [0, 0.25, 0.5, 0.75, 1] },
])('the axis of $values has the ticks $ticks', ({ values, isLogarithmic, ticks }) => {
  const scale = scaleOf(values);
  expect(scale).toMatchObject({ isLogarithmic, ticks });
  for (const value of values.filter((one) => one > 0)) {
    expect(scale.position(value)).toBeGreaterThan(0);
    expect(scale.position(value)).toBeLessThanOrEqual(1);
  }
});
