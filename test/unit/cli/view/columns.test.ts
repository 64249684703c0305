// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { type Column, table } from '../../../../src/cli/view/columns.ts';

interface Row {
  readonly name: string;
  readonly port: number;
  readonly backends: readonly string[];
}

const rows: readonly Row[] = [
  { name: 'web', port: 80, backends: ['a:1', 'b:1', 'c:1', 'd:1'] },
  { name: 'a-long-name', port: 8080, backends: [] },
];
const columns: readonly Column<Row>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'PORT', cell: (row) => String(row.port), spareRank: 1 },
  { title: 'BACKENDS', cell: (row) => row.backends, isWide: true },
];

const shown = (isWide: boolean, width?: number, hasHeaders = true): readonly string[] =>
  table(rows, columns, { isWide, hasHeaders, width }).text.split('\n');

test('columns line up, and wide ones are shown when asked for', () => {
  expect(shown(false)).toEqual(['NAME          PORT', 'web           80', 'a-long-name   8080']);
  expect(shown(true)).toEqual([
    'NAME          PORT   BACKENDS',
    'web           80     a:1,b:1,c:1,d:1',
    'a-long-name   8080   -',
  ]);
});

test('without headers there are only rows', () => {
  expect(shown(false, undefined, false)).toEqual(['web           80', 'a-long-name   8080']);
});

test('lists are shortened to the width of the terminal', () => {
  expect(shown(true, 36)[1]).toBe('web           80     a:1,b:1,c:1,d:1');
  // Three of four and a count would be longer than all four.
  expect(shown(true, 35)[1]).toBe('web           80     a:1 + 3 more...');
});

test('if that is not enough, less important columns are omitted and named', () => {
  expect(table(rows, columns, { isWide: false, hasHeaders: true, width: 15 })).toEqual({
    text: 'NAME\nweb\na-long-name',
    hidden: ['PORT'],
  });
  expect(table(rows, columns, { isWide: true, hasHeaders: true, width: 15 }).hidden).toEqual([]);
});
