// SPDX-License-Identifier: Apache-2.0
// Tables that are written as text: columns in the first line, then a name and a cell for each of them in every line.

export interface Cell {
  readonly row: string;
  readonly column: string;
  readonly text: string;
}

const partsOf = (line: string): readonly string[] => line.split('|').map((part) => part.trim());

export function readTable(text: string): readonly Cell[] {
  const [head = '', ...lines] = text.split('\n').filter((line) => line.trim() !== '');
  const columns = partsOf(head).slice(1);
  return lines.flatMap((line) => {
    const [row = '', ...cells] = partsOf(line);
    if (cells.length !== columns.length) throw new Error(`${cells.length} cells: ${line}`);
    return columns.map((column, index) => ({ row, column, text: cells[index] ?? '' }));
  });
}
