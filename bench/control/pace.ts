// SPDX-License-Identifier: Apache-2.0
// How much of everything a column is measured with. kube-proxy gets a coarser prober and longer pauses: its
// answers are that much slower, and a pause longer than its minSyncPeriod (1 s) spares it the wait for it.
import type { ProxyName } from './figures.ts';

export interface Pace {
  readonly probePeriodMs: number;
  /** At most so many changes, and none begun after this time. */
  readonly changes: number;
  readonly changesTimeMs: number;
  /** Between two changes: at least, and a random part on top. */
  readonly quietPauseMs: readonly [least: number, random: number];
  readonly busyPauseMs: readonly [least: number, random: number];
  /** Streams of changes whose last one is waited for; the first is long and its CPU time is counted. */
  readonly streamSeconds: readonly number[];
}

export const START_PROBE_PERIOD_MS = 5;
/** Nobody answers for a Service that is not served yet: the kernel limits how often it says so. */
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
