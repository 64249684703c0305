// SPDX-License-Identifier: Apache-2.0
// The measurements of a run as plain values, as stored in the JSON file.
import type { Environment } from '../../lib/environment.ts';

export const PROXIES = [
  'fairlead',
  'fairlead-iptables',
  'fairlead-nftables',
  'iptables',
  'nftables',
] as const;
/** fairlead with one of its engines, or kube-proxy in one of its modes. */
export type ProxyName = (typeof PROXIES)[number];

export const VARIANTS = ['legacy', 'nft'] as const;
/** Of the iptables tools of all columns. */
export type Variant = (typeof VARIANTS)[number];

/** Time from the response of a change to its effect, one number per change; negative if the effect came first. */
export interface Latencies {
  readonly samplesMs: readonly number[];
  /** Failed connections while a change was awaited. */
  readonly failures: number;
}

export interface StartFigures {
  /** From exec to the end of the connection by which every probe Service had answered. */
  readonly wallSeconds: number;
  readonly cpuSeconds: number;
  /** Connection attempts until then: one every 5 ms, or 20 ms while there is no answer. */
  readonly connections: number;
}

/** Of the proxy's main process. */
export interface MemoryFigures {
  readonly peakAfterStartBytes: number;
  readonly after10sBytes: number;
  /** As far as there was any. */
  readonly peakAfterChurnBytes: number;
}

/** Longest time between two turns of the event loop; the timer that finds it fires every 10 ms. */
export interface StallFigures {
  /** Until its first log line: modules are loaded, nothing is served. */
  readonly loadingMs: number;
  /** From then on until every probe Service answered. */
  readonly startMs: number;
  readonly churnMs: number;
}

/** While 100 endpoints change every second. */
export interface ChurnFigures {
  /** One change at a time among the others. */
  readonly busy: Latencies;
  /** The last of a stream. */
  readonly last: Latencies;
  readonly changesPerSecond: number;
  readonly seconds: number;
  readonly cpuCores: number;
  /** Changes that the API server rejected, or that changed nothing. */
  readonly refused: number;
}

/** As the proxy's own metrics have them, of IPv4. */
export interface SyncFigures {
  readonly fullSeconds: number;
  /** Mean of single changes, nothing else changes. */
  readonly oneSeconds: number;
}

/** A run of the tools by themselves, in the table that the proxy has written. */
export interface ToolsFigures {
  readonly wallMs: number;
  readonly cpuMs: number;
}

export interface Figures {
  readonly start: StartFigures;
  readonly memory: MemoryFigures;
  /** One change at a time, nothing else changes. */
  readonly quiet: Latencies;
  /** Absent in a brief run. */
  readonly churn?: ChurnFigures;
  /** For one of the single changes while nothing else changes, all processes of the proxy. */
  readonly cpuMsPerChange: number;
  readonly stalls?: StallFigures;
  readonly syncs?: SyncFigures;
  /** Of the full sync after somebody has removed all rules, by the proxy's metric. Absent without rules of iptables. */
  readonly flushedSeconds?: number;
  /** iptables-restore of one Service's chain: what no change can be below. Absent without rules of iptables. */
  readonly toolsAlone?: ToolsFigures;
  /** Lines of iptables-save, or of `nft list ruleset`, after the start. */
  readonly ruleLines?: number;
  /** Time between two connections of the prober. */
  readonly probePeriodMs: number;
}

/** A start that was given up. */
export interface Unfinished {
  readonly limitSeconds: number;
  /** Used until then. */
  readonly cpuSeconds: number;
}

export type Column = Figures | Unfinished;

export const isFinished = (column: Column): column is Figures => 'start' in column;

/** Columns that were measured one after the other. */
export type Round = Partial<Record<ProxyName, Column>>;

export interface SizeFigures {
  readonly services: number;
  readonly endpointsEach: number;
  readonly loadSeconds: number;
  readonly rounds: readonly Round[];
}

export interface Report extends Environment {
  /** The version of the API server and of kube-proxy: `1.37.2`. */
  readonly kubernetes: string;
  readonly apiServerFlags: readonly string[];
  readonly iptables: Variant;
  readonly sizes: readonly SizeFigures[];
}
