// SPDX-License-Identifier: Apache-2.0
// The report of a probe as a table of features, and what a start does with it.
import type { Refused, Served, Ways } from '../../probe/choice.ts';
import type { ProbeItem, ProbeReport } from '../../probe/report.ts';
import { aligned, type Column, table } from './columns.ts';
import { onNodeLines } from './on-node/section.ts';

const COLUMNS: readonly Column<ProbeItem>[] = [
  { title: 'FEATURE', cell: ({ feature }) => feature },
  { title: 'ANSWER', cell: ({ answer }) => answer },
  { title: 'NEEDED FOR', cell: ({ neededFor }) => neededFor, isWide: true },
  { title: 'REASON', cell: ({ reason }) => reason },
  { title: 'CONSEQUENCE', cell: ({ consequence = '' }) => consequence },
  { title: 'REMEDY', cell: ({ remedy = '' }) => remedy },
];

export function probeText(report: ProbeReport, isWide: boolean): string {
  const { text } = table(report.items, COLUMNS, { isWide, hasHeaders: true, width: undefined });
  return [text, '', ...aligned(summaryOf(report)), ...onNodeLines(report.onThisNode)].join('\n');
}

const summaryOf = ({ kernel, tier, engine }: ProbeReport): readonly (readonly string[])[] => [
  ['Kernel:', kernel],
  ...(tier === undefined ? [] : [['Tier:', tierText(tier)]]),
  [`--engine ${engine.asked}:`, engine.ok ? servedText(engine) : refusedText(engine)],
  ...(engine.ok ? engine.why.map((why) => ['', why]) : []),
  ...(engine.ok ? waysText(engine.ways) : []),
];

const tierText = ({ name, next, missing }: NonNullable<ProbeReport['tier']>): string =>
  [
    name ?? `below ${next}`,
    ...(next === undefined ? [] : [`${next} needs ${missing.join(', ')}`]),
  ].join('; ');

function servedText({ sockets, packets }: Served): string {
  if (sockets === packets) return `sockets and packets by ${sockets}`;
  return `sockets by ${sockets}, packets by ${packets}`;
}

const refusedText = ({ code, reason }: Refused): string => `does not start (${code}): ${reason}`;

const TITLES: Readonly<Record<keyof Ways, string>> = {
  devices: 'Devices:',
  refusedConnections: 'Refused connections:',
  expiredFlows: 'Expired flows:',
  staleSockets: 'Stale sockets:',
  addresses: 'Addresses:',
};

const waysText = (ways: Ways): readonly (readonly string[])[] =>
  (Object.keys(TITLES) as (keyof Ways)[]).flatMap((part) => {
    const way = ways[part];
    return way === undefined ? [] : [[TITLES[part], way]];
  });
