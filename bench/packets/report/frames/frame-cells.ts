// SPDX-License-Identifier: Apache-2.0
// A size's figures of frames as cells. Pure.
import { percentile } from '../../../../tools/bench/lib/quantiles.ts';
import { type Cells, servicesText } from '../../../../tools/bench/lib/tables.ts';
import { COLUMNS, type ColumnName } from '../figures.ts';
import { lossText, NAMES, ratioText } from '../rate-cells.ts';
import { medianRate, ratioTo } from '../ratios.ts';
import type { FrameRow, FrameSample, FrameSizeFigures, Latency } from './figures.ts';
import { goalCells } from './goals.ts';
import { nodeAlone } from './node-alone.ts';

export const frameTables = (size: FrameSizeFigures): readonly Cells[] =>
  [rates(size), alone(size), goalCells(size), programs(size), latencies(size)].filter(
    (cells) => cells.length > 1,
  );

const columnsIn = (
  rows: readonly { readonly [key in 'samples' | 'programs']?: object }[],
  of: 'samples' | 'programs',
): readonly ColumnName[] => COLUMNS.filter((name) => rows.some((row) => name in (row[of] ?? {})));

function rates({ services, rows }: FrameSizeFigures): Cells {
  const columns = columnsIn(rows, 'samples');
  return [
    [`frames, 1,000/s, ${servicesText(services)}`, ...columns.map((name) => NAMES[name])],
    ...rows.map((row) => [row.name, ...columns.map((name) => rate(row, name))]),
  ];
}

function rate({ samples }: FrameRow, name: ColumnName): string {
  const [own, base] = [samples[name] ?? [], samples.plain ?? []];
  if (own.length === 0) return '';
  const text = (medianRate(own) / 1e3).toFixed(0);
  if (name === 'plain' || name === 'feeder') return `${text}${lossText(own)}`;
  return `${text}: ${ratioText(ratioTo(base, own))}${lossText(own)}`;
}

/** Less what it takes to make a frame and to receive it. */
function alone({ services, rows }: FrameSizeFigures): Cells {
  const measured = rows.filter(({ samples }) => samples.feeder);
  const columns = columnsIn(measured, 'samples').filter((name) => name !== 'feeder');
  return [
    [
      `ns a packet, the node alone, ${servicesText(services)}`,
      ...columns.map((name) => NAMES[name]),
    ],
    ...measured.map(({ name: row, samples }) => [
      row,
      ...columns.map((name) =>
        percentile(nodeAlone(samples.feeder, samples[name]), 0.5).toFixed(0),
      ),
    ]),
  ];
}

/** `fl_ingress 250, fl_egress 310 × 0.98`: with how often it runs for a packet, unless that is once. */
function programs({ services, rows }: FrameSizeFigures): Cells {
  const columns = columnsIn(rows, 'programs');
  const cell = (row: FrameRow, name: ColumnName): string =>
    Object.entries(row.programs[name] ?? {})
      .map(([program, { nsPerRun, runsPerPacket }]) => {
        const often = runsPerPacket.toFixed(2);
        return `${program} ${nsPerRun.toFixed(0)}${often === '1.00' ? '' : ` × ${often}`}`;
      })
      .join(', ');
  return [
    [`ns per run, ${servicesText(services)}`, ...columns.map((name) => NAMES[name])],
    ...rows.map((row) => [row.name, ...columns.map((name) => cell(row, name))]),
  ];
}

function latencies({ services, latencies: rows }: FrameSizeFigures): Cells {
  const columns = columnsIn(rows, 'samples');
  return [
    [
      `a request of no Service's, p50 / p99 / p99.9 µs, ${servicesText(services)}`,
      ...columns.map((name) => NAMES[name]),
    ],
    ...rows.map(({ name, samples }) => [
      name,
      ...columns.map((column) => latency(samples[column] ?? [])),
    ]),
  ];
}

function latency(samples: readonly Latency[]): string {
  const median = (of: (sample: Latency) => number): number => percentile(samples.map(of), 0.5);
  const parts = [
    ({ p50Ns }: Latency) => p50Ns,
    ({ p99Ns }: Latency) => p99Ns,
    ({ p999Ns }: Latency) => p999Ns,
  ];
  const text = parts.map((of) => (median(of) / 1e3).toFixed(0)).join(' / ');
  const asFrames = samples.map(
    ({ load, loadLost }): FrameSample => ({
      ...{ units: load - loadLost, lost: loadLost, frames: load, cpuNs: 0, resent: 0 },
    }),
  );
  return `${text}${lossText(asFrames)}`;
}
