// SPDX-License-Identifier: Apache-2.0
// Prints rows as aligned columns, as kubectl does. On a terminal the table is fitted to its width: first lists
// in cells are shortened, then optional columns are left out. In a pipe nothing is shortened.

export interface Column<Row> {
  readonly title: string;
  /** A list is joined by commas, and shortened to `a,b + 3 more...` where the terminal is too narrow. */
  readonly cell: (row: Row) => string | readonly string[];
  /** Only with `-o wide`. */
  readonly isWide?: boolean;
  /** Left out if every cell is empty. */
  readonly isRare?: boolean;
  /** May be left out where the terminal is too narrow, the highest first; absent = never. */
  readonly spareRank?: number;
}

export interface TableOptions {
  readonly isWide: boolean;
  readonly hasHeaders: boolean;
  /** Characters in a line of the terminal; undefined = no limit. */
  readonly width: number | undefined;
}

export interface Table {
  readonly text: string;
  /** Titles of columns that did not fit. */
  readonly hidden: readonly string[];
}

/** '' if it is not known, which a table shows as `-`. */
export const countOf = (count: number | undefined): string =>
  count === undefined ? '' : String(count);

const GAP = '   ';
/** How many items of a list are shown, tried in this order. */
const LIST_LENGTHS = [Number.POSITIVE_INFINITY, 8, 5, 3, 2, 1];

export function table<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  options: TableOptions,
): Table {
  const { isWide, width } = options;
  let shown = columns.filter(
    (column) =>
      (isWide || column.isWide !== true) &&
      (column.isRare !== true || rows.some((row) => column.cell(row).length > 0)),
  );
  const hidden: string[] = [];
  for (;;) {
    const lines = linesThatFit(rows, shown, options);
    const isTooWide = width !== undefined && lines.some(({ length }) => length > width);
    const spare = isTooWide && !isWide ? mostSpare(shown) : undefined;
    if (spare === undefined) return { text: lines.join('\n'), hidden };
    shown = shown.filter((column) => column !== spare);
    hidden.push(spare.title);
  }
}

function mostSpare<Row>(columns: readonly Column<Row>[]): Column<Row> | undefined {
  return columns
    .filter(({ spareRank }) => spareRank !== undefined)
    .sort((a, b) => (b.spareRank ?? 0) - (a.spareRank ?? 0))[0];
}

function linesThatFit<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { hasHeaders, width }: TableOptions,
): readonly string[] {
  const titles = hasHeaders ? [columns.map(({ title }) => title)] : [];
  let lines: readonly string[] = [];
  for (const length of LIST_LENGTHS) {
    const cells = rows.map((row) => columns.map(({ cell }) => cellText(cell(row), length)));
    lines = aligned([...titles, ...cells]);
    if (width === undefined || lines.every((line) => line.length <= width)) return lines;
  }
  return lines;
}

function cellText(cell: string | readonly string[], most: number): string {
  if (typeof cell === 'string') return cell === '' ? '-' : cell;
  if (cell.length === 0) return '-';
  if (cell.length <= most) return cell.join(',');
  return `${cell.slice(0, most).join(',')} + ${cell.length - most} more...`;
}

/** Cells padded to the width of their column, without trailing spaces. */
export function aligned(lines: readonly (readonly string[])[]): readonly string[] {
  const widths: number[] = [];
  for (const cells of lines) {
    for (const [at, cell] of cells.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  }
  return lines.map((cells) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}
