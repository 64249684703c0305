// SPDX-License-Identifier: Apache-2.0
// The number and spacing of the measurements of a column. kube-proxy and rules of iptables get a coarser prober and longer
// pauses: they are that much slower, and with pauses longer than their minSyncPeriod (1 s) they need not wait for that.
import type { ProxyName } from '../report/figures.ts';

export interface Pace {
  readonly probePeriodMs: number;
  /** Limit on changes, and the time after which none is started. */
  readonly changes: number;
  readonly changesTimeMs: number;
  /** Pause between two changes: a minimum and a random addition. */
  readonly quietPauseMs: readonly [least: number, random: number];
  readonly busyPauseMs: readonly [least: number, random: number];
  /** Streams of changes whose last one is awaited; the first is long, and its CPU time is measured. */
  readonly streamSeconds: readonly number[];
}

export const START_PROBE_PERIOD_MS = 5;
/** Connections to a Service that is not served yet get ICMP errors, whose rate the kernel limits. */
export const START_PATIENCE_MS = 20;
export const PATIENCE_MS = 250;
export const SETTLE_MS = 10_000;
export const CHANGES_PER_SECOND = 100;

export function paceOf(proxy: ProxyName, changes: number): Pace {
  if (proxy === 'fairlead') {
    return {
      probePeriodMs: 0.5,
      changes,
      changesTimeMs: 120_000,
      quietPauseMs: [40, 60],
      busyPauseMs: [40, 60],
      streamSeconds: [20, 3, 3, 3, 3, 3, 3, 3, 3, 3],
    };
  }
  return {
    probePeriodMs: 2,
    changes,
    changesTimeMs: 90_000,
    quietPauseMs: [1_200, 200],
    busyPauseMs: [0, 1_000],
    streamSeconds: [20, 10, 10],
  };
}
