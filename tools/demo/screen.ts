// SPDX-License-Identifier: Apache-2.0
// Text output: lines, tables and, on a terminal, a progress bar and colours, unless NO_COLOR is set
// (no-color.org).
import { stripVTControlCharacters, styleText } from 'node:util';

export type Paint = (text: string) => string;

export interface Screen {
  readonly good: Paint;
  readonly bad: Paint;
  readonly strong: Paint;
  readonly faint: Paint;
  line(text?: string): void;
  table(header: readonly string[], rows: readonly (readonly string[])[]): void;
  /** A bar that redraws itself; without a terminal only its final state is printed. */
  progress(label: string, total: number): { show(done: number): void; end(done: number): void };
}

export interface ScreenStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

const BAR_WIDTH = 30;

export function createScreen(stream: ScreenStream, env: NodeJS.ProcessEnv): Screen {
  const isTerminal = stream.isTTY === true;
  const hasColor = isTerminal && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  const paint =
    (style: Parameters<typeof styleText>[0]): Paint =>
    (text) =>
      hasColor ? styleText(style, text, { validateStream: false }) : text;
  const line = (text = ''): void => void stream.write(`${text}\n`);
  const redraw = (text: string): void => void stream.write(`\r\x1b[K${text}`);
  return {
    ...{
      good: paint('green'),
      bad: paint('red'),
      strong: paint('bold'),
      faint: paint('dim'),
      line,
    },
    table: (header, rows) => {
      const widths = columnWidths([header, ...rows]);
      line(paint('dim')(alignRow(header, widths)));
      for (const row of rows) line(alignRow(row, widths));
    },
    progress: (label, total) => ({
      show: (done) => {
        if (isTerminal) redraw(progressText(label, done, total));
      },
      end: (done) => {
        if (isTerminal) redraw('');
        line(`  ${label}: ${done} of ${total}`);
      },
    }),
  };
}

function progressText(label: string, done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(done / total, 1);
  return `  ${bar(share, BAR_WIDTH, '·')} ${Math.round(share * 100)} %  ${label}`;
}

/** A bar of `width` characters, the part beyond `share` (0..1) filled with `rest`. */
export function bar(share: number, width: number, rest = ' '): string {
  const full = Math.max(0, Math.min(width, Math.round(share * width)));
  return '█'.repeat(full) + rest.repeat(width - full);
}

function visibleLength(text: string): number {
  return [...stripVTControlCharacters(text)].length;
}

function columnWidths(rows: readonly (readonly string[])[]): number[] {
  const columns = Math.max(...rows.map((row) => row.length));
  return Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => visibleLength(row[column] ?? ''))),
  );
}

/** Numbers are aligned right, text is aligned left. */
function alignRow(row: readonly string[], widths: readonly number[]): string {
  const cells = row.map((cell, column) => {
    const gap = ' '.repeat(Math.max(0, (widths[column] ?? 0) - visibleLength(cell)));
    return /^[\d.]+( %)?$/.test(cell) ? gap + cell : cell + gap;
  });
  return `  ${cells.join('  ')}`.trimEnd();
}
