// SPDX-License-Identifier: Apache-2.0
// The goals for fairlead's rules of iptables and its tables of nftables: what they take, in parts of what kube-proxy in the
// same mode takes in the same round, with the same tools. With iptables a full sync must not be slower, and one change must take
// at most half; with nftables a full sync and one change must take at most half, and changes at most a tenth of the CPU time.

import { medianOf, percentile } from '../../../tools/bench/lib/quantiles.ts';
import { type Figures, isFinished, type SizeFigures } from './figures.ts';

export interface RatioGoal {
  readonly name: string;
  readonly limit: number;
  /** Of each round in which both proxies were measured. */
  readonly ratios: readonly number[];
  /** Their middle. */
  readonly ratio: number;
  readonly isMet: boolean;
  /** What the tools alone take, in parts of the same: it cannot be less. undefined: not measured. */
  readonly least: number | undefined;
}

type Figure = (figures: Figures) => number;

const toolsWallMs: Figure = ({ toolsAlone }) => toolsAlone?.wallMs ?? Number.NaN;
const toolsCpuMs: Figure = ({ toolsAlone }) => toolsAlone?.cpuMs ?? Number.NaN;

type Goal = readonly [name: string, limit: number, figure: Figure, least?: Figure];

const IPTABLES_GOALS: readonly Goal[] = [
  ['start, wall time', 1, ({ start }) => start.wallSeconds],
  ['start, CPU time', 1, ({ start }) => start.cpuSeconds],
  ['full sync, by its metric', 1, ({ syncs }) => syncs?.fullSeconds ?? Number.NaN],
  [
    'full sync after all rules were removed',
    1,
    ({ flushedSeconds }) => flushedSeconds ?? Number.NaN,
  ],
  ['one change, p50', 0.5, ({ quiet }) => percentile(quiet.samplesMs, 0.5), toolsWallMs],
  ['one change, p99', 0.5, ({ quiet }) => percentile(quiet.samplesMs, 0.99)],
  [
    'one change, sync by its metric',
    0.5,
    ({ syncs }) => (syncs?.oneSeconds ?? Number.NaN) * 1000,
    toolsWallMs,
  ],
  ['one change, CPU time', 0.5, ({ cpuMsPerChange }) => cpuMsPerChange, toolsCpuMs],
];

const NFTABLES_GOALS: readonly Goal[] = [
  ['start, CPU time', 0.5, ({ start }) => start.cpuSeconds],
  ['full sync, by its metric', 0.5, ({ syncs }) => syncs?.fullSeconds ?? Number.NaN],
  ['one change, p50', 0.5, ({ quiet }) => percentile(quiet.samplesMs, 0.5)],
  ['one change, p99', 0.5, ({ quiet }) => percentile(quiet.samplesMs, 0.99)],
  [
    'one change among 100/s, p50',
    0.5,
    ({ churn }) => percentile(churn?.busy.samplesMs ?? [Number.NaN], 0.5),
  ],
  ['one change, CPU time', 0.1, ({ cpuMsPerChange }) => cpuMsPerChange],
  ['100 changes/s, CPU time', 0.1, ({ churn }) => churn?.cpuCores ?? Number.NaN],
];

/** The columns that are compared. */
const PAIRS = {
  iptables: { ours: 'fairlead-iptables', goals: IPTABLES_GOALS },
  nftables: { ours: 'fairlead-nftables', goals: NFTABLES_GOALS },
} as const;
export type Mode = keyof typeof PAIRS;
export const MODES: readonly Mode[] = ['iptables', 'nftables'];

/** None where one of the two is not measured, or did not finish. */
export function ratioGoals(
  { rounds }: Pick<SizeFigures, 'rounds'>,
  mode: Mode,
): readonly RatioGoal[] {
  const pair = PAIRS[mode];
  const measured = rounds.flatMap(({ [pair.ours]: ours, [mode]: theirs }) =>
    ours !== undefined && theirs !== undefined && isFinished(ours) && isFinished(theirs)
      ? [[ours, theirs] as const]
      : [],
  );
  return pair.goals.flatMap(([name, limit, figure, least]) => {
    // A change may show before the response to it is read: nothing is a part of less than no time.
    const pairs = measured.filter(
      ([ours, theirs]) => figure(theirs) > 0 && !Number.isNaN(figure(ours)),
    );
    if (pairs.length === 0) return [];
    const ratios = pairs.map(([ours, theirs]) => figure(ours) / figure(theirs));
    const ratio = medianOf(ratios);
    const leasts = pairs.map(([ours, theirs]) => (least?.(ours) ?? Number.NaN) / figure(theirs));
    return {
      ...{ name, limit, ratios, ratio },
      ...{
        isMet: ratio <= limit,
        least: leasts.some(Number.isNaN) ? undefined : medianOf(leasts),
      },
    };
  });
}

export const ratioText = ({ ratio, ratios }: RatioGoal): string => {
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
  const range = ratios.length > 1 ? ` (${low.toFixed(2)}–${high.toFixed(2)})` : '';
  return `${ratio.toFixed(2)}${range}`;
};
