// SPDX-License-Identifier: Apache-2.0
// A report as text for a terminal, and as Markdown. Pure.
import { asMarkdown, asText, type Cells } from '../lib/tables.ts';
import { type Row, rowsOf } from '../report/cells.ts';
import {
  type BenchReport,
  COLUMN_LABELS,
  type ColumnName,
  type SizeFigures,
} from '../report/types.ts';
import {
  cellText,
  LEGEND,
  machineText,
  rollTitle,
  rowName,
  sizeTitle,
  skippedLines,
} from './cell-text.ts';

export function reportText(report: BenchReport): string {
  const parts = tablesOf(report).map(({ title, cells, notes }) =>
    [title, asText(cells), ...notes].join('\n'),
  );
  return [machineText(report), ...skippedLines(report), '', parts.join('\n\n'), '', ...LEGEND].join(
    '\n',
  );
}

export function reportMarkdown(report: BenchReport): string {
  const parts = tablesOf(report).map(({ title, cells, notes }) =>
    [`**${title}**`, '', asMarkdown(cells), ...notes.flatMap((note) => ['', note])].join('\n'),
  );
  const skipped = skippedLines(report).map((line) => `\n${line}`);
  return [machineText(report), ...skipped, '', parts.join('\n\n')].join('\n');
}

interface TitledTable {
  readonly title: string;
  readonly cells: Cells;
  readonly notes: readonly string[];
}

function tablesOf(report: BenchReport): readonly TitledTable[] {
  const { sizes, roll, columns } = report;
  const titled: (readonly [string, SizeFigures])[] = sizes.map((size) => [
    sizeTitle(size, report),
    size,
  ]);
  if (roll !== undefined) titled.push([rollTitle(roll), roll]);
  return titled.map(([title, { samples, loadAfter, notes }]) => ({
    title: `${title} (load ${loadAfter.toFixed(1)})`,
    cells: withHead(rowsOf(samples, columns), columns),
    notes,
  }));
}

const withHead = (rows: readonly Row[], columns: readonly ColumnName[]): Cells => [
  ['', ...columns.map((name) => COLUMN_LABELS[name])],
  ...rows.map((row) => [rowName(row), ...row.cells.map((cell) => (cell ? cellText(cell) : '-'))]),
];
