// SPDX-License-Identifier: Apache-2.0
// What fairlead with XDP should be, in parts of others. Pure.
import { percentile } from '../../../../tools/bench/lib/quantiles.ts';
import { type Cells, servicesText } from '../../../../tools/bench/lib/tables.ts';
import type { ColumnName } from '../figures.ts';
import { NAMES, ratioText } from '../rate-cells.ts';
import { type Ratio, ratioTo } from '../ratios.ts';
import type { FrameRow, FrameSizeFigures } from './figures.ts';
import { nodeAlone } from './node-alone.ts';

const GOALS: readonly (readonly [ColumnName, number])[] = [
  ['router', 0.7],
  ['plain', 0.95],
  ['iptables', 5],
];

export function goalCells({ services, rows }: FrameSizeFigures): Cells {
  return [
    [`fairlead XDP, ${servicesText(services)}`, 'whole way', 'node alone', 'goal'],
    ...rows.flatMap((row) =>
      GOALS.filter(([base]) => row.samples[base] && row.samples.xdp).map(([base, goal]) => [
        `${row.name}, in parts of ${NAMES[base]}`,
        judged(ratioTo(row.samples[base]!, row.samples.xdp!), goal),
        row.samples.feeder ? judged(aloneRatio(row, base), goal) : '',
        `${goal}`,
      ]),
    ),
  ];
}

const judged = (ratio: Ratio, goal: number): string =>
  `${ratioText(ratio)}, ${ratio.median >= goal ? 'met' : 'missed'}`;

/** Of rates, as the other. */
function aloneRatio({ samples }: FrameRow, base: ColumnName): Ratio {
  const [own, theirs] = [samples.xdp, samples[base]].map((of) => nodeAlone(samples.feeder, of));
  const ratios = (own ?? []).map((ns, round) => (theirs?.[round] ?? Number.NaN) / ns);
  const at = (share: number): number => percentile(ratios, share);
  return { median: at(0.5), quartiles: [at(0.25), at(0.75)] };
}
