// SPDX-License-Identifier: Apache-2.0
// One plot: a metric over the number of Services, a mark and an interval for each column. Pure.
import type { Cell } from '../../report/cells.ts';
import { METRICS, type MetricName } from '../../report/metrics.ts';
import { numberText } from '../../report/numbers.ts';
import { COLUMN_LABELS, type ColumnName } from '../../report/types.ts';
import { content, element } from './markup.ts';
import { type Scale, scaleOf } from './scale.ts';
import { LOOKS } from './style.ts';

export interface PanelData {
  readonly metric: MetricName;
  /** Along the horizontal axis. */
  readonly categories: readonly string[];
  readonly axis: string;
  readonly columns: readonly ColumnName[];
  /** For each category, one for each column. */
  readonly cells: readonly (readonly (Cell | undefined)[])[];
}

export const PANEL = { width: 350, height: 236 } as const;
const AREA = { left: 58, right: 338, top: 50, bottom: 192 } as const;
/** Between two columns at one category, so that their intervals do not cover each other. */
const DODGE = 11;

export function panel(data: PanelData, x: number, y: number): string {
  const scale = scaleOf(
    data.cells.flat().flatMap((cell) => (cell ? [cell.value.low, cell.value.high] : [])),
  );
  const { label, unit, better } = METRICS[data.metric];
  const axis = `${unit}${scale.isLogarithmic ? ', logarithmic' : ''}; ${better} is better`;
  return element(
    'g',
    { transform: `translate(${x} ${y})`, role: 'group', 'aria-label': label },
    element('text', { class: 'b-title', x: 8, y: 20 }, content(label)),
    element('text', { class: 'b-faint', x: 8, y: 37 }, content(axis)),
    grid(scale),
    categoryTexts(data),
    ...data.columns.map((name, at) => series(name, at, data, scale)),
  );
}

const heightOf = (share: number): number => AREA.bottom - share * (AREA.bottom - AREA.top);

function grid(scale: Scale): string {
  return scale.ticks
    .map((tick, at) => {
      const y = heightOf(scale.position(tick));
      const line = { x1: AREA.left, x2: AREA.right, y1: y, y2: y };
      const text = { class: 'b-faint', x: AREA.left - 6, y: y + 4, 'text-anchor': 'end' };
      return (
        element('line', { class: at === 0 ? 'b-axis' : 'b-grid', ...line }) +
        element('text', text, content(tickText(tick)))
      );
    })
    .join('');
}

/** Without the zeros that `numberText` keeps, which a round number does not need; `100M`, for want of room. */
const tickText = (tick: number): string =>
  tick < 1
    ? String(tick)
    : tick.toLocaleString('en', {
        maximumFractionDigits: 2,
        notation: tick < 1e6 ? 'standard' : 'compact',
      });

const middleOf = (category: number, count: number): number =>
  AREA.left + ((category + 0.5) * (AREA.right - AREA.left)) / count;

function categoryTexts({ categories, axis }: PanelData): string {
  const texts = categories.map((category, at) => {
    const x = middleOf(at, categories.length);
    return element(
      'text',
      { class: 'b-faint', x, y: AREA.bottom + 17, 'text-anchor': 'middle' },
      content(category),
    );
  });
  const middle = (AREA.left + AREA.right) / 2;
  const title = { class: 'b-faint', x: middle, y: AREA.bottom + 34, 'text-anchor': 'middle' };
  return texts.join('') + element('text', title, content(axis));
}

function series(name: ColumnName, at: number, data: PanelData, scale: Scale): string {
  const { columns, categories, cells } = data;
  const dodge = (at - (columns.length - 1) / 2) * DODGE;
  const points = cells.flatMap((row, category) => {
    const cell = row[at];
    if (cell === undefined) return [];
    const { median, low, high } = cell.value;
    const y = (value: number): number => heightOf(scale.position(value));
    const x = middleOf(category, categories.length) + dodge;
    return [{ x, y: y(median), low: y(low), high: y(high), value: cell.value }];
  });
  const look = LOOKS[name];
  const path = points.map(({ x, y }) => `${Math.round(x * 10) / 10},${Math.round(y * 10) / 10}`);
  const line =
    points.length < 2
      ? ''
      : element('polyline', {
          ...{ class: 'b-line', 'stroke-dasharray': look.dashes, 'stroke-opacity': '0.55' },
          points: path.join(' '),
        });
  const marks = points.map(({ x, y, low, high, value }) => {
    const range = { class: 'b-range', x1: x, x2: x, y1: low, y2: high };
    const interval = `${numberText(value.low)} to ${numberText(value.high)}`;
    const title = `${COLUMN_LABELS[name]}: ${numberText(value.median)} (${interval}, ${value.count} rounds)`;
    return element(
      'g',
      {},
      element('title', {}, content(title)),
      element('line', range),
      look.marker(x, y, 'b-marker'),
    );
  });
  return element('g', { class: `b-${name}` }, line, ...marks);
}
