// SPDX-License-Identifier: Apache-2.0
// A size's figures as text for a terminal.
import { asText } from '../../../tools/bench/lib/tables.ts';
import { isFinished, type ProxyName, type SizeFigures } from './figures.ts';
import { GOAL_SERVICES, goals } from './goals.ts';
import { columnsOf } from './merge.ts';
import { MODES, ratioGoals, ratioText } from './ratios.ts';
import { cellText, ROWS } from './rows.ts';

export function sizeText(size: SizeFigures): string {
  const columns = columnsOf(size);
  const names = Object.keys(columns) as ProxyName[];
  const cells = [
    [`${size.services} Services × ${size.endpointsEach}`, ...names],
    ...ROWS.map((row) => [row.name, ...names.map((proxy) => cellText(row, columns[proxy]!))]),
  ];
  return [asText(cells), ...goalLines(size), ...ratioLines(size)].join('\n');
}

function goalLines(size: SizeFigures): readonly string[] {
  const { fairlead } = columnsOf(size);
  if (size.services !== GOAL_SERVICES || fairlead === undefined || !isFinished(fairlead)) return [];
  return goals(fairlead).map(({ name, figure, limit, unit, isMet }) => {
    const words = `${figure.toFixed(2)} ${unit}, goal at most ${limit}`;
    return `goal ${isMet ? 'met   ' : 'MISSED'}  ${name}: ${words}`;
  });
}

const ratioLines = (size: SizeFigures): readonly string[] =>
  MODES.flatMap((mode) =>
    ratioGoals(size, mode).map((goal) => {
      const words = `${ratioText(goal)} of kube-proxy's, goal at most ${goal.limit}`;
      return `goal ${goal.isMet ? 'met   ' : 'MISSED'}  ${mode}, ${goal.name}: ${words}`;
    }),
  );
