// SPDX-License-Identifier: Apache-2.0
// The measurements of a run as plain values, as stored in the JSON file.
import type { Sample } from '../../../tools/lab/columns/traffic.ts';
import type { Environment } from '../../lib/environment.ts';
import type { FrameSizeFigures } from './frames/figures.ts';

export const COLUMNS = [
  'feeder',
  'router',
  'xdp',
  'other-xdp',
  'plain',
  'empty',
  'fairlead',
  'other',
  'fairlead-nftables',
  'iptables',
  'nftables',
] as const;
/**
 * plain: routing without a Service. empty: the same, past programs that return at once. other: fairlead with the
 * programs of another build. fairlead-nftables: its engine of that name. iptables, nftables: kube-proxy in that mode. Only of
 * frames: feeder, a node that drops what
 * comes in; router, one that forwards at XDP; xdp, fairlead with XDP.
 */
export type ColumnName = (typeof COLUMNS)[number];

const ONLY_FRAMES: readonly ColumnName[] = ['feeder', 'router', 'xdp', 'other-xdp'];
const ONLY_SOCKETS: readonly ColumnName[] = ['empty'];

export type Part = 'sockets' | 'frames';

/** The columns that a part of the run has. */
export const columnsOf = (part: Part, columns: readonly ColumnName[]): readonly ColumnName[] =>
  columns.filter((name) => !(part === 'frames' ? ONLY_SOCKETS : ONLY_FRAMES).includes(name));

export type WorkloadName = string;

/** By workload and column, in the order of rounds: samples of one index are of one round. */
export type Samples = Readonly<
  Record<WorkloadName, Partial<Record<ColumnName, readonly Sample[]>>>
>;

interface ProgramFigure {
  readonly nsPerRun: number;
  /** How often it runs for a datagram, a connection or a byte. */
  readonly runsPerUnit: number;
}
export type ProgramFigures = Readonly<Record<'ingress' | 'egress', ProgramFigure>>;
/** By column and workload. */
export type Programs = Partial<Record<ColumnName, Readonly<Record<WorkloadName, ProgramFigures>>>>;

export interface SizeFigures {
  readonly services: number;
  readonly samples: Samples;
  /** Load average of the minute at the end of this size's rounds. */
  readonly loadAfter: number;
  /** Of columns with packet programs. */
  readonly programs: Programs;
}

export interface PacketReport extends Environment {
  readonly rounds: number;
  /** Columns that were not measured, and why. */
  readonly skipped: Partial<Record<ColumnName, string>>;
  readonly sizes: readonly SizeFigures[];
  readonly frames: readonly FrameSizeFigures[];
}
