// SPDX-License-Identifier: Apache-2.0
// The measurements of a run as plain values, as stored in the JSON file.

export const PROXIES = ['fairlead', 'iptables', 'nftables'] as const;
/** fairlead, or kube-proxy in one of its modes. */
export type ProxyName = (typeof PROXIES)[number];

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

export interface ChurnFigures {
  readonly changesPerSecond: number;
  readonly seconds: number;
  readonly cpuCores: number;
  /** Changes that the API server rejected, or that changed nothing. */
  readonly refused: number;
}

export interface Figures {
  readonly start: StartFigures;
  readonly memory: MemoryFigures;
  /** One change at a time, nothing else changes. */
  readonly quiet: Latencies;
  /** One change at a time among 100 others a second. */
  readonly busy: Latencies;
  /** The last of a stream of 100 changes a second. */
  readonly last: Latencies;
  readonly churn: ChurnFigures;
  readonly stalls?: StallFigures;
  /** Time between two connections of the prober. */
  readonly probePeriodMs: number;
}

export interface SizeFigures {
  readonly services: number;
  readonly endpointsEach: number;
  readonly loadSeconds: number;
  readonly columns: Partial<Record<ProxyName, Figures>>;
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly kernel: string;
  readonly node: string;
  /** Load average of the minute before the run: above one, other programs disturbed it. */
  readonly loadBefore: number;
}

export interface Report {
  readonly date: string;
  readonly commit: string;
  readonly hasUncommittedChanges: boolean;
  readonly machine: Machine;
  readonly apiServerFlags: readonly string[];
  readonly sizes: readonly SizeFigures[];
}
