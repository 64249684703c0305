// SPDX-License-Identifier: Apache-2.0
// All plots of a report as one picture: a legend, then a plot for each metric, over the numbers of Services; below them
// those of the Service that is rolled over. Or one metric as a picture for a page. Pure.
import { type Row, rowsOf } from '../../report/cells.ts';
import { METRIC_NAMES, METRICS, type MetricName } from '../../report/metrics.ts';
import { countText } from '../../report/numbers.ts';
import {
  type BenchReport,
  COLUMN_LABELS,
  type ColumnName,
  type SizeFigures,
} from '../../report/types.ts';
import { machineText, rollTitle } from '../cell-text.ts';
import { content, element } from './markup.ts';
import { PANEL, type PanelData, panel } from './panel.ts';
import { LOOKS, STYLE } from './style.ts';

const ACROSS = 3;
const MARGIN = 16;
const HEAD = 78;
const TITLE = 40;
const WIDTH = 2 * MARGIN + ACROSS * PANEL.width;

export function reportSvg(report: BenchReport): string {
  const { sizes, roll, columns } = report;
  const main = panelsOf(sizes, columns, 'Services');
  const parts = [legend(columns), ...placed(main, HEAD)];
  let height = HEAD + rowsNeeded(main) * PANEL.height;
  if (roll !== undefined) {
    const title = { class: 'b-head', x: MARGIN + 8, y: height + 26 };
    const below = panelsOf([roll], columns, 'Services besides it');
    parts.push(element('text', title, content(rollTitle(roll))));
    parts.push(...placed(below, height + TITLE));
    height += TITLE + rowsNeeded(below) * PANEL.height;
  }
  const attributes = {
    ...{ xmlns: 'http://www.w3.org/2000/svg', class: 'b-plot', viewBox: `0 0 ${WIDTH} ${height}` },
    ...{ width: WIDTH, height, role: 'img', 'aria-label': 'Results of fairlead bench' },
  };
  const back = { class: 'b-back', width: WIDTH, height };
  const style = element('style', {}, STYLE);
  const note = { class: 'b-faint', x: MARGIN + 8, y: 62 };
  const where = element('text', note, content(machineText(report)));
  return `${element('svg', attributes, style, element('rect', back), where, ...parts)}\n`;
}

/** Beside the plot of one metric. */
const LEGEND = { width: 178, step: 30, top: 70 } as const;

/** One metric over the numbers of Services, large enough for a page; the columns are named beside it. */
export function metricSvg({ sizes, columns }: BenchReport, metric: MetricName): string {
  const [data] = panelsOf(sizes, columns, 'Services', [metric]);
  const shown = data?.columns ?? [];
  const [width, { height }] = [PANEL.width + LEGEND.width, PANEL];
  const attributes = {
    ...{ xmlns: 'http://www.w3.org/2000/svg', class: 'b-plot', viewBox: `0 0 ${width} ${height}` },
    ...{ width: 1.5 * width, height: 1.5 * height, role: 'img' },
    'aria-label': METRICS[metric].label,
  };
  return `${element(
    'svg',
    attributes,
    element('style', {}, STYLE),
    element('rect', { class: 'b-back', width, height }),
    ...(data === undefined ? [] : [panel(data, 0, 0)]),
    ...shown.map((name, at) => legendOf(name, PANEL.width, LEGEND.top + at * LEGEND.step)),
  )}\n`;
}

const rowsNeeded = (panels: readonly PanelData[]): number => Math.ceil(panels.length / ACROSS);

const placed = (panels: readonly PanelData[], top: number): string[] =>
  panels.map((data, at) =>
    panel(data, MARGIN + (at % ACROSS) * PANEL.width, top + Math.floor(at / ACROSS) * PANEL.height),
  );

function panelsOf(
  sizes: readonly SizeFigures[],
  columns: readonly ColumnName[],
  axis: string,
  metrics: readonly MetricName[] = METRIC_NAMES,
): readonly PanelData[] {
  const rows = sizes.map(({ samples }) => rowsOf(samples, columns));
  return metrics.flatMap((metric): readonly PanelData[] => {
    const found = rows.map((one) => one.find((row) => row.metric === metric));
    const shown = columns.filter((_, at) => found.some((row) => row?.cells[at] !== undefined));
    if (shown.length === 0) return [];
    const cells = found.map((row) => shown.map((name) => cellOf(row, columns.indexOf(name))));
    const categories = sizes.map(({ services }) => countText(services));
    return [{ metric, categories, axis, columns: shown, cells }];
  });
}

const cellOf = (row: Row | undefined, at: number): Row['cells'][number] => row?.cells[at];

function legend(columns: readonly ColumnName[]): string {
  const step = (WIDTH - 2 * MARGIN) / Math.max(5, columns.length);
  return columns.map((name, at) => legendOf(name, MARGIN + 8 + at * step, 30)).join('');
}

function legendOf(name: ColumnName, x: number, y: number): string {
  const line = { class: 'b-line', 'stroke-dasharray': LOOKS[name].dashes };
  return element(
    'g',
    { class: `b-${name}` },
    element('line', { ...line, x1: x, x2: x + 30, y1: y, y2: y }),
    LOOKS[name].marker(x + 15, y, 'b-marker'),
    element('text', { x: x + 38, y: y + 4 }, content(COLUMN_LABELS[name])),
  );
}
