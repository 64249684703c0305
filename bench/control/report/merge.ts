// SPDX-License-Identifier: Apache-2.0
// The rounds of a size as one column for each proxy: the start of the middle round, the samples of all, and of what is
// measured once in a round, the median.

import { percentile } from '../../../tools/bench/lib/quantiles.ts';
import {
  type ChurnFigures,
  type Column,
  type Figures,
  isFinished,
  type Latencies,
  PROXIES,
  type ProxyName,
  type Round,
  type SizeFigures,
} from './figures.ts';

export function columnsOf({ rounds }: Pick<SizeFigures, 'rounds'>): Round {
  const merged = PROXIES.flatMap((proxy): [ProxyName, Column][] => {
    const columns = rounds.flatMap((round) => round[proxy] ?? []);
    const column = mergeColumns(columns);
    return column === undefined ? [] : [[proxy, column]];
  });
  return Object.fromEntries(merged);
}

/** One that did not finish is told, even if others did. */
function mergeColumns(columns: readonly Column[]): Column | undefined {
  const unfinished = columns.find((column) => !isFinished(column));
  return unfinished ?? mergeFigures(columns.filter(isFinished));
}

function mergeFigures(rounds: readonly Figures[]): Figures | undefined {
  const middle = rounds
    .toSorted((a, b) => a.start.wallSeconds - b.start.wallSeconds)
    .at(Math.ceil(rounds.length / 2) - 1);
  if (middle === undefined) return undefined;
  const median = (value: (figures: Figures) => number): number =>
    percentile(rounds.map(value), 0.5);
  return {
    ...middle,
    quiet: mergeLatencies(rounds.map(({ quiet }) => quiet)),
    ...(middle.churn !== undefined && { churn: mergeChurn(middle.churn, rounds) }),
    cpuMsPerChange: median(({ cpuMsPerChange }) => cpuMsPerChange),
    ...(middle.syncs !== undefined && {
      syncs: {
        fullSeconds: median(({ syncs }) => syncs?.fullSeconds ?? Number.NaN),
        oneSeconds: median(({ syncs }) => syncs?.oneSeconds ?? Number.NaN),
      },
    }),
    ...(middle.flushedSeconds !== undefined && {
      flushedSeconds: median(({ flushedSeconds }) => flushedSeconds ?? Number.NaN),
    }),
    ...(middle.toolsAlone !== undefined && {
      toolsAlone: {
        wallMs: median(({ toolsAlone }) => toolsAlone?.wallMs ?? Number.NaN),
        cpuMs: median(({ toolsAlone }) => toolsAlone?.cpuMs ?? Number.NaN),
      },
    }),
  };
}

function mergeChurn(middle: ChurnFigures, rounds: readonly Figures[]): ChurnFigures {
  const all = rounds.flatMap(({ churn }) => churn ?? []);
  return {
    ...middle,
    busy: mergeLatencies(all.map(({ busy }) => busy)),
    last: mergeLatencies(all.map(({ last }) => last)),
    cpuCores: percentile(
      all.map(({ cpuCores }) => cpuCores),
      0.5,
    ),
  };
}

export function mergeLatencies(parts: readonly Latencies[]): Latencies {
  return {
    samplesMs: parts.flatMap(({ samplesMs }) => samplesMs),
    failures: parts.reduce((sum, { failures }) => sum + failures, 0),
  };
}
