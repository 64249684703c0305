// SPDX-License-Identifier: Apache-2.0
// The rows of the tables: names and formats of the figures.

import { percentile } from '../../../tools/bench/lib/quantiles.ts';
import {
  type ChurnFigures,
  type Column,
  type Figures,
  isFinished,
  type Latencies,
} from './figures.ts';

const BYTES_PER_MIB = 1024 * 1024;

export interface Row {
  readonly name: string;
  text(figures: Figures): string;
  /** Of a start that was given up. */
  readonly unfinished?: (limitSeconds: number, cpuSeconds: number) => string;
}

const NOT_MEASURED = '–';

export function cellText({ text, unfinished }: Row, column: Column): string {
  if (isFinished(column)) return text(column);
  return unfinished?.(column.limitSeconds, column.cpuSeconds) ?? NOT_MEASURED;
}

export const ROWS: readonly Row[] = [
  {
    name: 'start: exec → all probe Services answer, wall / CPU s',
    text: ({ start }) => `${start.wallSeconds.toFixed(2)} / ${start.cpuSeconds.toFixed(2)}`,
    unfinished: (limitSeconds, cpuSeconds) =>
      `did not finish in ${limitSeconds} s / ${cpuSeconds.toFixed(0)}`,
  },
  {
    name: 'sync by its metric: full s / one change ms',
    text: ({ syncs }) =>
      syncs === undefined
        ? NOT_MEASURED
        : `${syncs.fullSeconds.toFixed(2)} / ${ms(syncs.oneSeconds * 1000)}`,
  },
  {
    name: 'full sync after all rules were removed, by its metric, s',
    text: ({ flushedSeconds }) => flushedSeconds?.toFixed(2) ?? NOT_MEASURED,
  },
  {
    name: 'rules after the start, lines',
    text: ({ ruleLines }) => ruleLines?.toLocaleString('en') ?? NOT_MEASURED,
  },
  {
    name: 'RSS: peak after start / after 10 s / peak after churn, MiB',
    text: ({ memory }) =>
      [memory.peakAfterStartBytes, memory.after10sBytes, memory.peakAfterChurnBytes]
        .map((bytes) => (bytes / BYTES_PER_MIB).toFixed(0))
        .join(' / '),
  },
  { name: 'one change, quiet: p50 / p99 ms (n)', text: ({ quiet }) => percentiles(quiet) },
  { name: 'one change, quiet: CPU ms', text: ({ cpuMsPerChange }) => ms(cpuMsPerChange) },
  {
    name: 'iptables-restore of one Service alone: wall / CPU ms',
    text: ({ toolsAlone }) =>
      toolsAlone === undefined
        ? NOT_MEASURED
        : `${ms(toolsAlone.wallMs)} / ${ms(toolsAlone.cpuMs)}`,
  },
  {
    name: 'one change among 100/s: p50 / p99 ms (n)',
    text: ({ churn }) => (churn === undefined ? NOT_MEASURED : percentiles(churn.busy)),
  },
  {
    name: 'last of 100 changes/s: median / longest ms (n)',
    text: ({ churn }) => (churn === undefined ? NOT_MEASURED : lastText(churn.last)),
  },
  {
    name: 'CPU at so many changes/s, cores (changes/s)',
    text: ({ churn }) => (churn === undefined ? NOT_MEASURED : churnText(churn)),
  },
  {
    name: 'longest stall: loading / start / churn ms',
    text: ({ stalls }) =>
      stalls === undefined
        ? NOT_MEASURED
        : [stalls.loadingMs, stalls.startMs, stalls.churnMs].map(ms).join(' / '),
  },
  {
    name: 'connections that failed while changes were awaited',
    text: ({ quiet, churn }) =>
      String(quiet.failures + (churn?.busy.failures ?? 0) + (churn?.last.failures ?? 0)),
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

const lastText = ({ samplesMs }: Latencies): string =>
  `${ms(percentile(samplesMs, 0.5))} / ${ms(percentile(samplesMs, 1))} (${samplesMs.length})`;

function churnText({ cpuCores, changesPerSecond, refused }: ChurnFigures): string {
  const refusals = refused > 0 ? `, ${refused} refused` : '';
  return `${cpuCores.toFixed(3)} (${changesPerSecond.toFixed(0)}${refusals})`;
}

function percentiles({ samplesMs }: Latencies): string {
  const [half, most] = [percentile(samplesMs, 0.5), percentile(samplesMs, 0.99)];
  return `${ms(half)} / ${ms(most)} (${samplesMs.length})`;
}
