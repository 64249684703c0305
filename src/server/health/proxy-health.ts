// SPDX-License-Identifier: Apache-2.0
// Health of the proxy for probes and load balancers, as kube-proxy's pkg/proxy/healthcheck/proxy_health.go and
// KEP-3836 define it: a family is healthy unless its oldest pending change is too old; an idle proxy is healthy.

import type { Clock } from '../../lib/clock.ts';
import type { Family } from '../../model/types.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';

export interface FamilyState {
  /** Since the epoch; undefined = nothing was programmed yet. */
  readonly lastUpdatedMs: number | undefined;
  /** Monotonic; undefined = nothing is pending. */
  readonly oldestPendingMs: number | undefined;
}

/** Only families that had a change. */
export type FamilyStates = ReadonlyMap<Family, FamilyState>;

export interface Verdict {
  /** True if every family is healthy. */
  readonly isHealthy: boolean;
  /** The newest of all families; undefined = never. */
  readonly lastUpdatedMs: number | undefined;
  readonly families: ReadonlyMap<
    Family,
    { readonly isHealthy: boolean; readonly lastUpdatedMs: number | undefined }
  >;
}

/**
 * @param monotonicMs now
 * @param timeoutMs 2 x syncPeriod: a change as old as this makes its family unhealthy
 */
export function judge(states: FamilyStates, monotonicMs: number, timeoutMs: number): Verdict {
  const families = new Map(
    [...states]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([family, { lastUpdatedMs, oldestPendingMs }]) => {
        const isHealthy =
          oldestPendingMs === undefined || monotonicMs - oldestPendingMs < timeoutMs;
        return [family, { isHealthy, lastUpdatedMs }] as const;
      }),
  );
  const verdicts = [...families.values()];
  const times = verdicts.flatMap(({ lastUpdatedMs }) => lastUpdatedMs ?? []);
  return {
    isHealthy: verdicts.every(({ isHealthy }) => isHealthy),
    lastUpdatedMs: times.length === 0 ? undefined : Math.max(...times),
    families,
  };
}

export interface ProxyHealth {
  /** A change arrived that is not programmed yet. Only the first since the last success counts. */
  queued(family: Family): void;
  /** Everything that was queued is programmed. Not to be called after a failed sync. */
  updated(family: Family): void;
  /** Eligibility of this node's Node object; before the first call the node is not eligible. */
  setNode(isEligible: boolean): void;
  verdict(): Verdict;
  isNodeEligible(): boolean;
  /** The current wall-clock time. */
  nowMs(): number;
}

export function createProxyHealth(
  timeoutMs: number,
  { nowMs, monotonicMs }: Pick<Clock, 'nowMs' | 'monotonicMs'> = SYSTEM_CLOCK,
): ProxyHealth {
  const states = new Map<Family, FamilyState>();
  let isEligible = false;
  return {
    queued(family) {
      const { lastUpdatedMs, oldestPendingMs = monotonicMs() } = states.get(family) ?? NOTHING;
      states.set(family, { lastUpdatedMs, oldestPendingMs });
    },
    updated(family) {
      states.set(family, { lastUpdatedMs: nowMs(), oldestPendingMs: undefined });
    },
    setNode(is) {
      isEligible = is;
    },
    verdict: () => judge(states, monotonicMs(), timeoutMs),
    isNodeEligible: () => isEligible,
    nowMs,
  };
}

const NOTHING: FamilyState = { lastUpdatedMs: undefined, oldestPendingMs: undefined };
