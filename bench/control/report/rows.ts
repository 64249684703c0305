// SPDX-License-Identifier: Apache-2.0
// The rows of the tables: names and formats of the figures.
import type { Figures, Latencies } from './figures.ts';
import { percentile } from './statistics.ts';

const BYTES_PER_MIB = 1024 * 1024;

export interface Row {
  readonly name: string;
  text(figures: Figures): string;
}

export const ROWS: readonly Row[] = [
  {
    name: 'start: exec → all probe Services answer, wall / CPU s',
    text: ({ start }) => `${start.wallSeconds.toFixed(2)} / ${start.cpuSeconds.toFixed(2)}`,
  },
  {
    name: 'RSS: peak after start / after 10 s / peak after churn, MiB',
    text: ({ memory }) =>
      [memory.peakAfterStartBytes, memory.after10sBytes, memory.peakAfterChurnBytes]
        .map((bytes) => (bytes / BYTES_PER_MIB).toFixed(0))
        .join(' / '),
  },
  { name: 'one change, quiet: p50 / p99 ms (n)', text: ({ quiet }) => percentiles(quiet) },
  {
    name: 'one change among 100/s: p50 / p99 ms (n)',
    text: ({ busy }) => percentiles(busy),
  },
  {
    name: 'last of 100 changes/s: median / longest ms (n)',
    text: ({ last: { samplesMs } }) =>
      `${ms(percentile(samplesMs, 0.5))} / ${ms(percentile(samplesMs, 1))} (${samplesMs.length})`,
  },
  {
    name: 'CPU at so many changes/s, cores (changes/s)',
    text: ({ churn: { cpuCores, changesPerSecond, refused } }) =>
      `${cpuCores.toFixed(3)} (${changesPerSecond.toFixed(0)}${refused > 0 ? `, ${refused} refused` : ''})`,
  },
  {
    name: 'longest stall: loading / start / churn ms',
    text: ({ stalls }) =>
      stalls === undefined
        ? '–'
        : [stalls.loadingMs, stalls.startMs, stalls.churnMs].map(ms).join(' / '),
  },
  {
    name: 'connections that failed while changes were awaited',
    text: ({ quiet, busy, last }) => String(quiet.failures + busy.failures + last.failures),
  },
  {
    name: 'time between two connections of the prober, ms',
    text: ({ probePeriodMs }) => String(probePeriodMs),
  },
];

/** One decimal below 100, none from there on. */
export function ms(value: number): string {
  const text = value.toFixed(Math.abs(value) < 100 ? 1 : 0);
  return text.replace(/^-/, '−').replace(/\B(?=(\d{3})+$)/g, ',');
}

function percentiles({ samplesMs }: Latencies): string {
  const [half, most] = [percentile(samplesMs, 0.5), percentile(samplesMs, 0.99)];
  return `${ms(half)} / ${ms(most)} (${samplesMs.length})`;
}
