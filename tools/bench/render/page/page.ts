// SPDX-License-Identifier: Apache-2.0
// A report as one HTML page that needs nothing besides itself: no script, no font, no request. Pure.
import { METRIC_NAMES, METRICS, type MetricName } from '../../report/metrics.ts';
import { type BenchReport, COLUMN_LABELS, type RollFigures } from '../../report/types.ts';
import { LEGEND, machineText, rollTitle, sizeTitle, skippedLines } from '../cell-text.ts';
import { reportSvg } from '../svg/figure.ts';
import { content, element } from '../svg/markup.ts';
import { table } from './size-table.ts';
import { PAGE_STYLE } from './style.ts';

export function reportHtml(report: BenchReport): string {
  const { sizes, roll, columns } = report;
  const title = `fairlead bench: ${columns.map((name) => COLUMN_LABELS[name]).join(', ')}`;
  const head = element(
    'head',
    {},
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">',
    element('title', {}, content(title)),
    element('style', {}, PAGE_STYLE),
  );
  const body = element(
    'body',
    {},
    element('h1', {}, 'fairlead bench'),
    element('p', { class: 'faint' }, content(machineText(report))),
    ...skippedLines(report).map((line) => element('p', { class: 'skipped' }, content(line))),
    element('div', { class: 'wide' }, reportSvg(report).trimEnd()),
    element('p', { class: 'faint' }, 'Marks are medians, lines their confidence intervals.'),
    ...sizes.map((size) => section(sizeTitle(size, report), size, report)),
    ...(roll === undefined ? [] : [section(rollTitle(roll), roll, report)]),
    element('h2', {}, 'How to read it'),
    element('p', {}, content(LEGEND.join(' '))),
    definitions(measuredIn(report)),
  );
  const page = element('html', { lang: 'en' }, head, body);
  return `<!doctype html>\n${page}\n`;
}

function section(
  title: string,
  size: BenchReport['sizes'][number] | RollFigures,
  { columns }: BenchReport,
): string {
  const load = `Load of the machine at the end: ${size.loadAfter.toFixed(1)}.`;
  return [
    element('h2', {}, content(title)),
    table(size, columns),
    element('p', { class: 'faint' }, content([load, ...size.notes].join(' '))),
  ].join('');
}

function measuredIn({ sizes, roll }: BenchReport): readonly MetricName[] {
  const all = [...sizes, ...(roll ? [roll] : [])];
  return METRIC_NAMES.filter((name) => all.some(({ samples }) => samples[name] !== undefined));
}

const definitions = (metrics: readonly MetricName[]): string =>
  element(
    'dl',
    {},
    ...metrics.map(
      (name) =>
        element('dt', {}, content(METRICS[name].label)) +
        element('dd', {}, content(METRICS[name].meaning)),
    ),
  );
