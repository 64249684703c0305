// SPDX-License-Identifier: Apache-2.0
// A size's figures as text for a terminal.
import type { ProxyName, SizeFigures } from './figures.ts';
import { GOAL_SERVICES, goals } from './goals.ts';
import { ROWS } from './rows.ts';

export function sizeText(size: SizeFigures): string {
  const names = Object.keys(size.columns) as ProxyName[];
  const cells = [
    [`${size.services} Services × ${size.endpointsEach}`, ...names],
    ...ROWS.map(({ name, text }) => [name, ...names.map((proxy) => text(size.columns[proxy]!))]),
  ];
  const widths = cells[0]!.map((_, column) =>
    Math.max(...cells.map((line) => line[column]!.length)),
  );
  const lines = cells.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
  return [...lines, ...goalLines(size)].join('\n');
}

function goalLines({ services, columns: { fairlead } }: SizeFigures): readonly string[] {
  if (services !== GOAL_SERVICES || fairlead === undefined) return [];
  return goals(fairlead).map(({ name, figure, limit, unit, isMet }) => {
    const words = `${figure.toFixed(2)} ${unit}, goal at most ${limit}`;
    return `goal ${isMet ? 'met   ' : 'MISSED'}  ${name}: ${words}`;
  });
}
