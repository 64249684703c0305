// SPDX-License-Identifier: Apache-2.0
// Metrics that are updated as events happen. All others are read at each scrape.
import type { Family, Kind } from '../../model/types.ts';
import type { RequestFacts } from '../../source/apiserver/counters.ts';
import { type MetricReaders, readingsOf } from './readings.ts';
import { createRegistry, type MetricsRegistry, type RegistryOptions } from './registry.ts';

export interface SyncFacts {
  readonly family: Family;
  /** The sync was of every Service, not only of those that changed. */
  readonly isFull: boolean;
  readonly durationMs: number;
  /** Entries the kernel refused. */
  readonly failed: number;
}

/** One pass over the conntrack table of a family. */
export interface ConntrackFacts {
  readonly family: Family;
  readonly durationMs: number;
  readonly deleted: number;
}

export interface Metrics {
  syncAsked(family: Family): void;
  /** Only a sync without failed entries counts as successful. */
  synced(facts: SyncFacts): void;
  /** @param sinceTriggerMs from the trigger time of the endpoints' change to now */
  programmed(family: Family, sinceTriggerMs: number): void;
  conntrackCleaned(cleaned: ConntrackFacts): void;
  arrived(kind: Kind, changes: number): void;
  responded(probe: 'healthz' | 'livez', status: number): void;
  /** One request to the API server; a watch counts when its response begins. */
  requested(request: RequestFacts): void;
  text: MetricsRegistry['text'];
  readonly contentType: string;
}

export interface MetricsOptions {
  readonly hasProcess: boolean;
  /** Milliseconds since the epoch. */
  readonly nowMs: () => number;
}

export function createMetrics(
  readers: MetricReaders,
  onFailure: RegistryOptions['onFailure'],
  { hasProcess, nowMs }: MetricsOptions = { hasProcess: true, nowMs: Date.now },
): Metrics {
  const registry = createRegistry(readingsOf(readers, nowMs), { hasProcess, onFailure });
  return {
    syncAsked(family) {
      const labels = { ip_family: family };
      registry.set(
        'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
        labels,
        nowMs() / 1000,
      );
    },
    synced: (facts) => recordSync(registry, facts, nowMs() / 1000),
    programmed(family, sinceTriggerMs) {
      // A trigger time in the future results from clock skew between machines.
      const seconds = Math.max(0, sinceTriggerMs) / 1000;
      registry.observe(
        'kubeproxy_network_programming_duration_seconds',
        { ip_family: family },
        seconds,
      );
    },
    conntrackCleaned({ family, durationMs, deleted }) {
      const labels = { ip_family: family };
      const seconds = durationMs / 1000;
      registry.observe('kubeproxy_conntrack_reconciler_sync_duration_seconds', labels, seconds);
      registry.count('kubeproxy_conntrack_reconciler_deleted_entries_total', labels, deleted);
    },
    arrived(kind, changes) {
      if (kind === 'Service')
        registry.count('kubeproxy_sync_proxy_rules_service_changes_total', {}, changes);
      if (kind === 'EndpointSlice')
        registry.count('kubeproxy_sync_proxy_rules_endpoint_changes_total', {}, changes);
    },
    responded: (probe, status) =>
      registry.count(`kubeproxy_proxy_${probe}_total`, { code: String(status) }),
    requested({ method, host, code, durationMs }) {
      registry.count('rest_client_requests_total', { code, method, host });
      const labels = { verb: method, host };
      registry.observe('rest_client_request_duration_seconds', labels, durationMs / 1000);
    },
    text: registry.text,
    contentType: registry.contentType,
  };
}

function recordSync(registry: MetricsRegistry, facts: SyncFacts, nowSeconds: number): void {
  const { family, isFull, durationMs, failed } = facts;
  const labels = { ip_family: family };
  const seconds = durationMs / 1000;
  registry.observe('kubeproxy_sync_proxy_rules_duration_seconds', labels, seconds);
  registry.observe(
    `kubeproxy_sync_${isFull ? 'full' : 'partial'}_proxy_rules_duration_seconds`,
    labels,
    seconds,
  );
  if (failed > 0) registry.count('fairlead_update_errors_total', {}, failed);
  else registry.set('kubeproxy_sync_proxy_rules_last_timestamp_seconds', labels, nowSeconds);
}
