// SPDX-License-Identifier: Apache-2.0
// kube-proxy's outward face on a running agent: health and metrics servers, health check ports of
// Services, Events. It watches what arrives and what was synced, and decides nothing.
import { existsSync } from 'node:fs';
import type { SyncFacts } from '../agent/agent.ts';
import type { ListenAddress } from '../config/addresses.ts';
import { reasonOf } from '../errors.ts';
import { isRecord, recordOrEmpty } from '../lib/json.ts';
import type { Logger } from '../log.ts';
import type { Family, ObjectChange } from '../model/types.ts';
import type { ServiceKey } from '../plan/types.ts';
import type { RequestFacts } from '../source/apiserver/counters.ts';
import { interfaceAddresses } from '../sys/addresses.ts';
import { createEventRecorder, type EventRecorder, type EventSender } from './events/recorder.ts';
import { isNodeEligible } from './health/node.ts';
import { createProxyHealth, type ProxyHealth } from './health/proxy-health.ts';
import { healthHandler } from './health/server.ts';
import { createServiceHealthServers } from './health/service-servers.ts';
import { type KeptServer, keepListening } from './http/keep.ts';
import { createMetrics, type Metrics } from './metrics/metrics.ts';
import type { MetricReaders } from './metrics/readings.ts';
import { metricsHandler } from './metrics/server.ts';

export interface ServersSettings {
  readonly nodeName: string;
  readonly healthz: ListenAddress | undefined;
  readonly metrics: ListenAddress | undefined;
  readonly isBindFailureFatal: boolean;
  readonly syncPeriodMs: number;
  readonly configz: () => Readonly<Record<string, unknown>>;
  readonly flagz: () => Readonly<Record<string, string>>;
}

export interface ServersParts {
  readonly settings: ServersSettings;
  readonly readers: MetricReaders;
  readonly sender: EventSender;
  readonly log: Logger;
}

export interface Servers {
  readonly events: EventRecorder;
  /** To be told before the agent is: what arrives waits until it is in the kernel. */
  arrived(changes: readonly ObjectChange[]): void;
  synced(facts: SyncFacts): void;
  requested(request: RequestFacts): void;
  close(): void;
}

const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time';

/** Rejects with BAD_OPTION if a port is taken and `isBindFailureFatal`. */
export async function openServers({
  settings,
  readers,
  sender,
  log,
}: ServersParts): Promise<Servers> {
  const startedMs = Date.now();
  const families: readonly Family[] = existsSync('/proc/net/if_inet6')
    ? ['IPv4', 'IPv6']
    : ['IPv4'];
  const health = createProxyHealth(2 * settings.syncPeriodMs);
  const events = createEventRecorder(sender, settings.nodeName);
  const metrics = createMetrics({ ...readers, events: () => events.stats() });
  const serviceHealth = createServiceHealthServers({
    isProxyHealthy: () => health.verdict().isHealthy,
    localAddresses: () => interfaceAddresses().map(({ address }) => address),
    onFailure: ({ namespace, name, port, reason }) => {
      log.warn({ service: `${namespace}/${name}`, port, reason }, 'health check port not served');
      events.record(
        'FailedToStartServiceHealthcheck',
        { kind: 'Service', namespace, name },
        reason,
      );
    },
  });
  const servers = await listenOn({ settings, readers, health, metrics, events, log });
  events.record('Starting', { kind: 'Node', name: settings.nodeName }, 'fairlead is starting');
  events.record(
    'ModeSelected',
    { kind: 'Node', name: settings.nodeName },
    'engine bpf: Services are translated at the socket',
  );
  let changed = new Set<ServiceKey>();
  let triggers: { readonly family: Family; readonly atMs: number }[] = [];
  return {
    events,
    arrived(changes) {
      for (const family of families) health.queued(family);
      for (const family of families) metrics.syncAsked(family);
      for (const change of changes) {
        metrics.arrived(change.ref.kind, 1);
        if (change.ref.kind === 'Node' && change.ref.name === settings.nodeName) {
          health.setNode(change.type === 'put' && isNodeEligible(change.object));
        }
        const trigger = triggerOf(change);
        if (trigger !== undefined && trigger.atMs > startedMs) triggers.push(trigger);
      }
    },
    synced({ plan, services, report, isFull, isComplete }) {
      for (const key of services) changed.add(key);
      for (const family of families) {
        metrics.synced({
          family,
          isFull,
          durationMs: report.elapsedMs,
          failed: report.failed.length,
        });
      }
      for (const { service, reason } of report.failed) {
        if (service === undefined || !reason.includes('is full')) continue;
        const [namespace = '', name = ''] = service.split('/');
        events.record('MapFull', { kind: 'Service', namespace, name }, reason);
      }
      if (!isComplete) return;
      for (const family of families) health.updated(family);
      const nowMs = Date.now();
      for (const { family, atMs } of triggers) metrics.programmed(family, nowMs - atMs);
      triggers = [];
      const all = changed;
      changed = new Set();
      serviceHealth.sync(plan, all).catch((error: unknown) => {
        log.warn({ reason: reasonOf(error) }, 'health check ports not synced');
      });
    },
    requested: metrics.requested,
    close() {
      for (const server of servers) void server.close();
      void serviceHealth.close();
    },
  };
}

interface ListenParts {
  readonly settings: ServersSettings;
  readonly readers: MetricReaders;
  readonly health: ProxyHealth;
  readonly metrics: Metrics;
  readonly events: EventRecorder;
  readonly log: Logger;
}

async function listenOn(parts: ListenParts): Promise<readonly KeptServer[]> {
  const { settings, readers, health, metrics, events, log } = parts;
  const isReady = readers.isReady ?? (() => false);
  const wanted = [
    {
      name: 'healthz',
      at: settings.healthz,
      event: 'FailedToStartProxierHealthcheck' as const,
      onRequest: healthHandler({ health, isReady, onAnswer: metrics.answered }),
    },
    {
      name: 'metrics',
      at: settings.metrics,
      event: 'FailedToStartMetricServer' as const,
      onRequest: metricsHandler({
        metrics,
        configz: settings.configz,
        flagz: settings.flagz,
        version: readers.version,
        startedAt: new Date(),
      }),
    },
  ];
  const kept: KeptServer[] = [];
  for (const { name, at, event, onRequest } of wanted) {
    if (at === undefined) continue;
    const onRefused = (message: string): void => {
      log.warn({ server: name, reason: message }, 'server not listening, will try again');
      events.record(event, { kind: 'Node', name: settings.nodeName }, message);
    };
    kept.push(
      await keepListening({
        name,
        ...at,
        onRequest,
        onRefused,
        isFatal: settings.isBindFailureFatal,
      }),
    );
  }
  return kept;
}

/** When what changed the endpoints happened, as the slice controller noted it. */
function triggerOf(change: ObjectChange): { family: Family; atMs: number } | undefined {
  if (change.type !== 'put' || change.ref.kind !== 'EndpointSlice' || !isRecord(change.object)) {
    return undefined;
  }
  const annotations = recordOrEmpty(recordOrEmpty(change.object['metadata'])['annotations']);
  const at = annotations[TRIGGER_TIME];
  const atMs = typeof at === 'string' ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(atMs)) return undefined;
  return { family: change.object['addressType'] === 'IPv6' ? 'IPv6' : 'IPv4', atMs };
}
