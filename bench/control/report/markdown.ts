// SPDX-License-Identifier: Apache-2.0
// A report as Markdown: one table for each size, then the goals.
import { isFinished, type ProxyName, type Report, type SizeFigures } from './figures.ts';
import { GOAL_SERVICES, goals } from './goals.ts';
import { columnsOf } from './merge.ts';
import { ratioGoals, ratioText } from './ratios.ts';
import { cellText, ROWS } from './rows.ts';

const NAMES: Readonly<Record<ProxyName, string>> = {
  fairlead: 'fairlead',
  'fairlead-iptables': 'fairlead iptables',
  iptables: 'kube-proxy iptables',
  nftables: 'kube-proxy nftables',
};

export function reportMarkdown(report: Report): string {
  const { machine, date, commit, hasUncommittedChanges, kubernetes, iptables, sizes } = report;
  const state = hasUncommittedChanges ? ' with uncommitted changes' : '';
  const { cpu, cores, kernel, node, loadBefore } = machine;
  const flags = report.apiServerFlags.map((flag) => `\`${flag}\``).join(' ');
  return [
    `${date}, commit ${commit}${state}; ${cores} × ${cpu}, Linux ${kernel}, Node ${node.slice(1)};`,
    `load before the run ${loadBefore.toFixed(1)}; iptables-${iptables}; API server ${kubernetes} with ${flags}.`,
    ...sizes.flatMap((size) => ['', ...sizeTable(size)]),
    ...sizes.flatMap(goalTable),
    ...sizes.flatMap(ratioTable),
  ].join('\n');
}

function sizeTable(size: SizeFigures): readonly string[] {
  const { services, endpointsEach, rounds } = size;
  const columns = columnsOf(size);
  const proxies = Object.keys(columns) as ProxyName[];
  const times = rounds.length > 1 ? `, ${rounds.length} rounds` : '';
  const title = `${services.toLocaleString('en')} Services × ${endpointsEach}${times}`;
  return [
    line([title, ...proxies.map((proxy) => NAMES[proxy])]),
    line(['---', ...proxies.map(() => '---')]),
    ...ROWS.map((row) =>
      line([row.name, ...proxies.map((proxy) => cellText(row, columns[proxy]!))]),
    ),
  ];
}

function goalTable(size: SizeFigures): readonly string[] {
  const { services } = size;
  const { fairlead } = columnsOf(size);
  if (services !== GOAL_SERVICES || fairlead === undefined || !isFinished(fairlead)) return [];
  const rows = goals(fairlead).map(({ name, figure, limit, unit, isMet }) =>
    line([name, `${figure.toFixed(2)} ${unit}`, `${limit} ${unit}`, isMet ? 'met' : 'missed']),
  );
  const head = line([
    `fairlead at ${services.toLocaleString('en')} Services`,
    'figure',
    'goal',
    '',
  ]);
  return ['', head, line(['---', '---', '---', '---']), ...rows];
}

/** Nothing if one of the two was not measured, or did not finish. */
function ratioTable(size: SizeFigures): readonly string[] {
  const rows = ratioGoals(size).map((goal) =>
    line([
      ...[goal.name, ratioText(goal), goal.least?.toFixed(2) ?? '–'],
      ...[String(goal.limit), goal.isMet ? 'met' : 'missed'],
    ]),
  );
  if (rows.length === 0) return [];
  const services = size.services.toLocaleString('en');
  const head = `fairlead iptables in parts of kube-proxy iptables, ${services} Services`;
  return [
    '',
    line([head, 'ratio', 'tools alone', 'goal', '']),
    line(['---', '---', '---', '---', '---']),
    ...rows,
  ];
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
