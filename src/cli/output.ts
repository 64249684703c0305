// SPDX-License-Identifier: Apache-2.0
// How commands print: plain columns for people, JSON and YAML for programs, and a redraw on change.
// stdout is data, stderr is talk.
import { setTimeout as sleep } from 'node:timers/promises';
import { dump } from 'js-yaml';

export type OutputFormat = 'table' | 'wide' | 'json' | 'yaml';
export const OUTPUT_FORMATS: readonly OutputFormat[] = ['table', 'wide', 'json', 'yaml'];

export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly isWide?: boolean;
}

/** Columns as kubectl prints them: upper-case titles, two or more spaces between. */
export function table<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  isWide: boolean,
): string {
  const shown = columns.filter((column) => isWide || column.isWide !== true);
  const lines = [
    shown.map(({ title }) => title),
    ...rows.map((row) => shown.map(({ text }) => text(row))),
  ];
  const widths = shown.map((_, index) =>
    Math.max(...lines.map((cells) => cells[index]?.length ?? 0)),
  );
  return lines
    .map((cells) =>
      cells
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join('   ')
        .trimEnd(),
    )
    .join('\n');
}

export function list<Row>(
  kind: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  format: OutputFormat,
): string {
  if (format === 'table' || format === 'wide') {
    return rows.length === 0 ? 'none' : table(rows, columns, format === 'wide');
  }
  return machine({ apiVersion: 'fairlead.io/v1', kind, items: rows }, format);
}

export function machine(value: object, format: 'json' | 'yaml'): string {
  return format === 'json'
    ? JSON.stringify(value, undefined, 2)
    : dump(value, { noRefs: true }).trimEnd();
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

const WATCH_INTERVAL_MS = 500;

/** Prints once, or with `isWatching` again whenever the text changed, until interrupted. */
export async function show(text: () => Promise<string>, isWatching: boolean): Promise<void> {
  let last: string | undefined;
  do {
    const next = await text();
    if (next !== last) print(last === undefined ? next : `\n${next}`);
    last = next;
    if (isWatching) await sleep(WATCH_INTERVAL_MS);
  } while (isWatching);
}
