// SPDX-License-Identifier: Apache-2.0
// A size's figures as cells, from which the terminal's text and the document are made.
import { type Cells, servicesText } from '../../../tools/bench/lib/tables.ts';
import type { Sample } from '../../../tools/lab/columns/traffic.ts';
import { COLUMNS, type ColumnName, type PacketReport, type SizeFigures } from './figures.ts';
import { medianRate, type Ratio, ratioTo, shareOf } from './ratios.ts';

export const NAMES: Readonly<Record<ColumnName, string>> = {
  feeder: 'nothing but frames',
  router: 'XDP router',
  xdp: 'fairlead XDP',
  'other-xdp': 'other build, XDP',
  plain: 'plain routing',
  empty: 'empty programs',
  fairlead: 'fairlead tc',
  other: 'other build',
  'fairlead-nftables': 'fairlead nftables',
  iptables: 'kube-proxy iptables',
  nftables: 'kube-proxy nftables',
};
/** Of a rate as it is written. */
const UNITS = {
  udp: { text: 'datagrams, 1,000/s', divisor: 1e3 },
  tcp: { text: 'connections, 1,000/s', divisor: 1e3 },
  bulk: { text: 'bulk TCP, Gbit/s', divisor: 1e9 / 8 },
} as const;
/** From this share on, a cell says what was lost or resent. */
const TELLING_SHARE = 0.001;

const unitOf = (workload: string) => UNITS[workload.split(' ')[0] as keyof typeof UNITS];

/** The rates and ratios of a size, with a head. */
export function rateCells({ services, samples }: SizeFigures): Cells {
  const present = COLUMNS.filter((name) => Object.values(samples).some((row) => row[name]));
  return [
    [servicesText(services), ...present.map((name) => NAMES[name])],
    ...Object.entries(samples).map(([workload, row]) => [
      rowName(workload),
      ...present.map((name) => cell(workload, name, row)),
    ]),
  ];
}

/** `datagrams, 1,000/s, local` */
function rowName(workload: string): string {
  const [, ...rest] = workload.split(' ');
  return `${unitOf(workload).text}, ${rest.join(' ')}`;
}

function cell(
  workload: string,
  name: ColumnName,
  row: Partial<Record<ColumnName, readonly Sample[]>>,
): string {
  const [samples, base] = [row[name] ?? [], row.plain ?? []];
  const rate = (medianRate(samples) / unitOf(workload).divisor).toFixed(1);
  const loss = lossText(samples);
  if (name === 'plain') return `${rate}${loss}`;
  return `${rate}: ${ratioText(ratioTo(base, samples))}${loss}`;
}

export function ratioText({ median, quartiles }: Ratio): string {
  const [low, high] = quartiles.map((value) => value.toFixed(2));
  return `${median.toFixed(2)} (${low}–${high})`;
}

export function lossText(samples: readonly Sample[]): string {
  return (['lost', 'resent'] as const)
    .map((what) => [what, shareOf(what, samples)] as const)
    .filter(([, share]) => share >= TELLING_SHARE)
    .map(([what, share]) => `, ${(100 * share).toFixed(1)} % ${what}`)
    .join('');
}

/** Nanoseconds of packet programs; empty if they were not counted. */
export function programCells({ services, programs }: SizeFigures): Cells {
  const present = COLUMNS.filter((name) => programs[name]);
  const [first] = present;
  if (first === undefined) return [];
  const figures = (workload: string): string[] =>
    present.flatMap((name) => {
      const { ingress, egress } = programs[name]?.[workload] ?? {};
      return [ingress, egress].map((figure) => figure?.nsPerRun.toFixed(0) ?? '');
    });
  return [
    [
      `ns per run, ${services.toLocaleString('en')}`,
      ...present.flatMap((name) => [`${NAMES[name]}: ingress`, 'egress']),
    ],
    ...Object.keys(programs[first] ?? {}).map((workload) => [
      rowName(workload).replace(/, (1,000|Gbit)\/s/, ''),
      ...figures(workload),
    ]),
  ];
}

export function skippedLines({ skipped }: Pick<PacketReport, 'skipped'>): string[] {
  return Object.entries(skipped).map(
    ([name, reason]) => `${NAMES[name as ColumnName]} was not measured: ${reason}`,
  );
}
