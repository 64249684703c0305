// SPDX-License-Identifier: Apache-2.0
// The goals for fairlead with 10,000 Services × 10 endpoints, and whether they are met.

import { percentile } from '../../../tools/bench/lib/quantiles.ts';
import type { Figures } from './figures.ts';

const BYTES_PER_MIB = 1024 * 1024;

export const GOAL_SERVICES = 10_000;

export interface Goal {
  readonly name: string;
  /** The maximum for the figure. */
  readonly limit: number;
  readonly unit: string;
  readonly figure: number;
  readonly isMet: boolean;
}

export function goals(figures: Figures): readonly Goal[] {
  const { start, memory, quiet, churn, stalls } = figures;
  const mib = (bytes: number): number => bytes / BYTES_PER_MIB;
  const rows: readonly [name: string, figure: number, limit: number, unit: string][] = [
    ['start, wall time', start.wallSeconds, 2, 's'],
    ['start, CPU time', start.cpuSeconds, 2, 's'],
    ['one change, p50', percentile(quiet.samplesMs, 0.5), 5, 'ms'],
    ['one change, p99', percentile(quiet.samplesMs, 0.99), 10, 'ms'],
    ['last of 100 changes/s, longest', percentile(churn?.last.samplesMs ?? [], 1), 20, 'ms'],
    ['peak RSS after start', mib(memory.peakAfterStartBytes), 120, 'MiB'],
    ['peak RSS after churn', mib(memory.peakAfterChurnBytes), 120, 'MiB'],
    ['CPU at 100 changes/s', churn?.cpuCores ?? Number.NaN, 0.1, 'cores'],
    ['longest stall, start', stalls?.startMs ?? Number.NaN, 50, 'ms'],
    ['longest stall, churn', stalls?.churnMs ?? Number.NaN, 50, 'ms'],
  ];
  return rows.map(([name, figure, limit, unit]) => ({
    ...{ name, figure, limit, unit },
    isMet: figure <= limit,
  }));
}
