// SPDX-License-Identifier: Apache-2.0
// A report as Markdown, for docs/bench.md: one table for each size, then the goals.
import type { ProxyName, Report, SizeFigures } from './figures.ts';
import { GOAL_SERVICES, goals } from './goals.ts';
import { ROWS } from './rows.ts';

const NAMES: Readonly<Record<ProxyName, string>> = {
  fairlead: 'fairlead',
  iptables: 'kube-proxy iptables',
  nftables: 'kube-proxy nftables',
};

export function reportMarkdown(report: Report): string {
  const { machine, date, commit, hasUncommittedChanges, apiServerFlags, sizes } = report;
  const state = hasUncommittedChanges ? ' with uncommitted changes' : '';
  const { cpu, cores, kernel, node, loadBefore } = machine;
  const flags = apiServerFlags.map((flag) => `\`${flag}\``).join(' ');
  return [
    `${date}, commit ${commit}${state}; ${cores} × ${cpu}, Linux ${kernel}, Node ${node.slice(1)};`,
    `load before the run ${loadBefore.toFixed(1)}; API server 1.36.1 with ${flags}.`,
    ...sizes.flatMap((size) => ['', ...sizeTable(size)]),
    ...sizes.flatMap(goalTable),
  ].join('\n');
}

function sizeTable({ services, endpointsEach, columns }: SizeFigures): readonly string[] {
  const proxies = Object.keys(columns) as ProxyName[];
  const title = `${services.toLocaleString('en')} Services × ${endpointsEach}`;
  return [
    line([title, ...proxies.map((proxy) => NAMES[proxy])]),
    line(['---', ...proxies.map(() => '---')]),
    ...ROWS.map(({ name, text }) => line([name, ...proxies.map((proxy) => text(columns[proxy]!))])),
  ];
}

function goalTable({ services, columns: { fairlead } }: SizeFigures): readonly string[] {
  if (services !== GOAL_SERVICES || fairlead === undefined) return [];
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

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
