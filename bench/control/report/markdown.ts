// SPDX-License-Identifier: Apache-2.0
// A report as Markdown: one table for each size, then the goals.
import { asMarkdown, type Cells } from '../../../tools/bench/lib/tables.ts';
import { whereText } from '../../lib/environment.ts';
import { isFinished, type ProxyName, type Report, type SizeFigures } from './figures.ts';
import { GOAL_SERVICES, goals } from './goals.ts';
import { columnsOf } from './merge.ts';
import { MODES, type Mode, ratioGoals, ratioText } from './ratios.ts';
import { cellText, ROWS } from './rows.ts';

const NAMES: Readonly<Record<ProxyName, string>> = {
  fairlead: 'fairlead',
  'fairlead-iptables': 'fairlead iptables',
  'fairlead-nftables': 'fairlead nftables',
  iptables: 'kube-proxy iptables',
  nftables: 'kube-proxy nftables',
};

export function reportMarkdown(report: Report): string {
  const { machine, kubernetes, iptables, sizes } = report;
  const { node, loadBefore } = machine;
  const flags = report.apiServerFlags.map((flag) => ` \`${flag}\``).join('');
  return [
    `${whereText(report)}, Node ${node.slice(1)};`,
    `load before the run ${loadBefore.toFixed(1)}; iptables-${iptables}; API server ${kubernetes}${flags && ` with${flags}`}.`,
    ...[sizeTable, goalTable, ...MODES.map(ratioTable)]
      .flatMap((table) => sizes.map(table))
      .flatMap((cells) => (cells.length > 1 ? ['', asMarkdown(cells)] : [])),
  ].join('\n');
}

function sizeTable(size: SizeFigures): Cells {
  const { services, endpointsEach, rounds } = size;
  const columns = columnsOf(size);
  const proxies = Object.keys(columns) as ProxyName[];
  const times = rounds.length > 1 ? `, ${rounds.length} rounds` : '';
  const title = `${services.toLocaleString('en')} Services × ${endpointsEach}${times}`;
  return [
    [title, ...proxies.map((proxy) => NAMES[proxy])],
    ...ROWS.map((row) => [row.name, ...proxies.map((proxy) => cellText(row, columns[proxy]!))]),
  ];
}

function goalTable(size: SizeFigures): Cells {
  const { services } = size;
  const { fairlead } = columnsOf(size);
  if (services !== GOAL_SERVICES || fairlead === undefined || !isFinished(fairlead)) return [];
  return [
    [`fairlead at ${services.toLocaleString('en')} Services`, 'figure', 'goal', ''],
    ...goals(fairlead).map(({ name, figure, limit, unit, isMet }) => [
      ...[name, `${figure.toFixed(2)} ${unit}`, `${limit} ${unit}`, isMet ? 'met' : 'missed'],
    ]),
  ];
}

/** Only the head if one of the two was not measured, or did not finish. */
const ratioTable =
  (mode: Mode) =>
  (size: SizeFigures): Cells => {
    const services = size.services.toLocaleString('en');
    const head = `fairlead ${mode} in parts of kube-proxy ${mode}, ${services} Services`;
    return [
      [head, 'ratio', 'tools alone', 'goal', ''],
      ...ratioGoals(size, mode).map((goal) => [
        ...[goal.name, ratioText(goal), goal.least?.toFixed(2) ?? '–'],
        ...[String(goal.limit), goal.isMet ? 'met' : 'missed'],
      ]),
    ];
  };
