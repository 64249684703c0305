// SPDX-License-Identifier: Apache-2.0
// The measurements of a run as plain values, as stored in its JSON file. Renderers compute everything else from them.
import type { Machine } from '../lib/machine.ts';
import type { MetricName } from './metrics.ts';

/** In the order of the tables. `none`: no proxy, clients connect to the endpoint itself. */
export const COLUMNS = [
  'none',
  'fairlead-bpf',
  'fairlead-iptables',
  'fairlead-nftables',
  'fairlead-userspace',
  'kube-proxy-iptables',
  'kube-proxy-nftables',
] as const;
export type ColumnName = (typeof COLUMNS)[number];

export const COLUMN_LABELS: Readonly<Record<ColumnName, string>> = {
  none: 'no proxy',
  'fairlead-bpf': 'fairlead bpf',
  'fairlead-iptables': 'fairlead iptables',
  'fairlead-nftables': 'fairlead nftables',
  'fairlead-userspace': 'fairlead userspace',
  'kube-proxy-iptables': 'kube-proxy iptables',
  'kube-proxy-nftables': 'kube-proxy nftables',
};

/** One value a round; null where the round has none, because a limit passed. Values of one index are of one round. */
export type Series = readonly (number | null)[];
export type Samples = Readonly<
  Partial<Record<MetricName, Readonly<Partial<Record<ColumnName, Series>>>>>
>;

/** All measurements with so many Services present. */
export interface SizeFigures {
  readonly services: number;
  readonly samples: Samples;
  /** Load average of the last minute when the size was done. */
  readonly loadAfter: number;
  /** What a reader has to know of single cells: lost packets, limits that passed. */
  readonly notes: readonly string[];
}

/** One Service, all of whose endpoints are replaced, slice by slice. */
export interface RollFigures extends SizeFigures {
  readonly endpoints: number;
  readonly slices: number;
}

export interface BenchReport {
  readonly apiVersion: 'fairlead.io/v1';
  readonly kind: 'BenchReport';
  readonly version: string;
  readonly date: string;
  readonly machine: Machine;
  /** Of the iptables tools, for all columns that use them. */
  readonly iptables: 'legacy' | 'nft';
  readonly endpointsEach: number;
  readonly columns: readonly ColumnName[];
  /** Columns that were not measured, and why. */
  readonly skipped: Readonly<Partial<Record<ColumnName, string>>>;
  readonly sizes: readonly SizeFigures[];
  readonly roll?: RollFigures;
}
