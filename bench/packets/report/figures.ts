// SPDX-License-Identifier: Apache-2.0
// The measurements of a run as plain values, as stored in the JSON file.
import type { Machine } from '../../control/report/figures.ts';

export const COLUMNS = ['plain', 'fairlead', 'iptables', 'nftables'] as const;
/** plain: routing without a Service. iptables, nftables: kube-proxy in that mode. */
export type ColumnName = (typeof COLUMNS)[number];

export type WorkloadName = string;

/** Of one turn of a column. */
export interface Sample {
  /** Datagrams both ways, connections, or bytes. */
  readonly units: number;
  /** CPU time of client, kernel and server together: they are one thread. */
  readonly cpuNs: number;
  readonly lost: number;
  /** Connections for which the client had to send a packet again. */
  readonly resent: number;
}

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

export interface SizeFigures {
  readonly services: number;
  readonly samples: Samples;
  /** Load average of the minute at the end of this size's rounds. */
  readonly loadAfter: number;
  /** Of fairlead's programs, by workload. */
  readonly programs: Readonly<Record<WorkloadName, ProgramFigures>>;
}

export interface PacketReport {
  readonly date: string;
  readonly commit: string;
  readonly hasUncommittedChanges: boolean;
  readonly machine: Machine;
  readonly rounds: number;
  /** Columns that were not measured, and why. */
  readonly skipped: Partial<Record<ColumnName, string>>;
  readonly sizes: readonly SizeFigures[];
}
