// SPDX-License-Identifier: Apache-2.0
// The words of cells and of what stands around a table, the same in every format. Pure.
import { servicesText } from '../lib/tables.ts';
import type { Cell, Row } from '../report/cells.ts';
import { METRICS } from '../report/metrics.ts';
import { countText, numberText, ratioText } from '../report/numbers.ts';
import type { Verdict } from '../report/statistics.ts';
import {
  type BenchReport,
  COLUMN_LABELS,
  COLUMNS,
  type RollFigures,
  type SizeFigures,
} from '../report/types.ts';

/** After a ratio. What has no mark differs, with a confidence of 95 %. */
const VERDICT_MARKS: Readonly<Record<Verdict, string>> = {
  differs: '',
  noise: '~',
  few: '?',
};

export const LEGEND: readonly string[] = [
  'Each cell: the median of the rounds, then its ratio to the reference of the row in the same round, with the',
  'interval that holds the true median ratio with a confidence of 95 %.',
  '~  noise: the interval includes 1.00, the rounds do not tell the two apart.',
  '?  all rounds agree, but fewer than six cannot give 95 %: 3 rounds give 75 %, 4 give 88 %, 5 give 94 %.',
];

/** `14,100  1.31 (1.25–1.38)` */
export function cellText({ value, comparison }: Cell): string {
  const median = numberText(value.median);
  if (comparison === undefined) return median;
  return `${median}  ${ratioOf(comparison)}`;
}

export function ratioOf({ ratio, verdict }: NonNullable<Cell['comparison']>): string {
  const mark = VERDICT_MARKS[verdict];
  const interval = ratio.count < 2 ? '' : ` (${ratioText(ratio.low)}–${ratioText(ratio.high)})`;
  return `${ratioText(ratio.median)}${interval}${mark && ` ${mark}`}`;
}

export const rowName = ({ metric }: Row): string =>
  `${METRICS[metric].label}, ${METRICS[metric].unit}`;

export function sizeTitle({ services }: SizeFigures, { endpointsEach }: BenchReport): string {
  return `${servicesText(services)}, ${endpointsEach} endpoints each`;
}

export const rollTitle = ({ endpoints, slices }: RollFigures): string =>
  `One Service of ${countText(endpoints)} endpoints in ${slices} slices, replaced slice by slice`;

/** What the run ran on. */
export function machineText({ version, date, machine, iptables }: BenchReport): string {
  const { cpu, cores, kernel, node, loadBefore } = machine;
  return (
    `fairlead ${version}, ${date}; ${cores} × ${cpu}, Linux ${kernel}, Node ${node}; iptables-${iptables}; ` +
    `load ${loadBefore.toFixed(1)} before the run`
  );
}

/** Nobody takes an empty column for a result. */
export const skippedLines = ({ skipped }: BenchReport): readonly string[] =>
  COLUMNS.flatMap((name) => {
    const reason = skipped[name];
    return reason === undefined ? [] : [`SKIPPED: ${COLUMN_LABELS[name]}: ${reason}`];
  });
