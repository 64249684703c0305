// SPDX-License-Identifier: Apache-2.0
// What is measured by frames, as plain values.
import type { Sample } from '../../../../tools/lab/columns/traffic.ts';
import type { ColumnName } from '../figures.ts';

/** By column, in the order of rounds: samples of one index are of one round. */
export type ByColumn<T> = Partial<Record<ColumnName, T>>;

export interface FrameRow {
  /** `UDP, one way` */
  readonly name: string;
  /** What a unit of its samples is. */
  readonly unit: 'packets' | 'connections';
  /** Packets that the node forwards for a frame that is made. */
  readonly packets: number;
  readonly samples: ByColumn<readonly FrameSample[]>;
  /** What the kernel counts for programs of the node, by the program's name. */
  readonly programs: ByColumn<Readonly<Record<string, ProgramCost>>>;
}

export interface FrameSample extends Sample {
  /** Frames that were made. */
  readonly frames: number;
}

export interface ProgramCost {
  readonly nsPerRun: number;
  /** How often it runs for a packet that the node forwards. */
  readonly runsPerPacket: number;
}

/** Percentiles of one round, in ns. */
export interface Latency {
  readonly p50Ns: number;
  readonly p99Ns: number;
  readonly p999Ns: number;
  /** Requests, and those that were not answered. */
  readonly units: number;
  readonly lost: number;
  /** Frames that were sent meanwhile, and those that did not arrive. */
  readonly load: number;
  readonly loadLost: number;
}

export interface LatencyRow {
  readonly name: string;
  readonly samples: ByColumn<readonly Latency[]>;
}

export interface FrameSizeFigures {
  readonly services: number;
  readonly rows: readonly FrameRow[];
  readonly latencies: readonly LatencyRow[];
  readonly loadAfter: number;
}
