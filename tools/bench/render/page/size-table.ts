// SPDX-License-Identifier: Apache-2.0
// A table of the page. What differs is coloured and says so in words, too. Pure.
import { type Cell, type Row, rowsOf } from '../../report/cells.ts';
import { METRICS } from '../../report/metrics.ts';
import { numberText } from '../../report/numbers.ts';
import { COLUMN_LABELS, type ColumnName, type SizeFigures } from '../../report/types.ts';
import { ratioOf } from '../cell-text.ts';
import { content, element } from '../svg/markup.ts';

export function table({ samples }: SizeFigures, columns: readonly ColumnName[]): string {
  const head = columns.map((name) => element('th', { scope: 'col' }, content(COLUMN_LABELS[name])));
  const rows = rowsOf(samples, columns).map((row) => element('tr', {}, rowHead(row), ...tds(row)));
  return element(
    'div',
    { class: 'wide' },
    element(
      'table',
      {},
      element('thead', {}, element('tr', {}, element('th', {}, ''), ...head)),
      element('tbody', {}, ...rows),
    ),
  );
}

function rowHead({ metric, reference }: Row): string {
  const { label, unit, better } = METRICS[metric];
  const to = reference === undefined ? '' : `; ratios to ${COLUMN_LABELS[reference]}`;
  const small = element('small', {}, content(`${unit}, ${better} is better${to}`));
  return element('th', { scope: 'row' }, content(label), small);
}

const tds = (row: Row): string[] =>
  row.cells.map((cell) => element('td', {}, ...(cell ? figures(cell, row) : ['-'])));

function figures({ value, comparison }: Cell, { metric }: Row): string[] {
  const median = content(numberText(value.median));
  if (comparison === undefined) return [median];
  const { ratio, verdict } = comparison;
  const ratioText = content(ratioOf(comparison));
  if (verdict !== 'differs') {
    const why = verdict === 'noise' ? 'noise' : 'too few rounds';
    return [median, element('small', {}, `${ratioText} ${why}`)];
  }
  const isBetter = ratio.median > 1 === (METRICS[metric].better === 'higher');
  const word = isBetter ? 'better' : 'worse';
  return [median, element('small', {}, element('span', { class: word }, `${ratioText} ${word}`))];
}
