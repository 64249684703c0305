// SPDX-License-Identifier: Apache-2.0
// Tables of a report: the first row is the head. Pure.

export type Cells = readonly (readonly string[])[];

/** For a terminal. */
export function asText(cells: Cells): string {
  const widths = (cells[0] ?? []).map((_, at) =>
    Math.max(...cells.map((row) => [...(row[at] ?? '')].length)),
  );
  const line = (row: readonly string[]): string =>
    row.map((text, at) => text + ' '.repeat((widths[at] ?? 0) - [...text].length)).join('  ');
  return cells.map((row) => line(row).trimEnd()).join('\n');
}

export function asMarkdown([head = [], ...rows]: Cells): string {
  const line = (row: readonly string[]): string => `| ${row.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

export const servicesText = (count: number): string =>
  count === 1 ? '1 Service' : `${count.toLocaleString('en')} Services`;
