// SPDX-License-Identifier: Apache-2.0
// The public interfaces of a running agent, as kube-proxy has them: health and metrics servers, the
// healthCheckNodePort of each Service, Kubernetes Events. They only report what the agent received and synced.
// The admin socket (admin-socket.ts) serves fairlead's own commands.
import { existsSync } from 'node:fs';
import type { SyncFacts } from '../agent/agent.ts';
import type { ListenAddress } from '../config/addresses.ts';
import { LIMITATIONS } from '../engines/limitations.ts';
import type { Fallback } from '../engines/snapshot.ts';
import { reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import { isNodeEligible } from '../model/node/eligibility.ts';
import type { Family, ObjectChange } from '../model/types.ts';
import type { ShadowView } from '../observe/shadow-view.ts';
import type { Finding } from '../on-node/finding.ts';
import type { ServiceKey } from '../plan/types.ts';
import type { RequestFacts } from '../source/apiserver/counters.ts';
import { SYSTEM_CLOCK } from '../sys/clock.ts';
import { followFullTables } from './events/full-tables.ts';
import { createNodeConflicts } from './events/node-conflict.ts';
import { createEventRecorder, type EventRecorder, type EventSender } from './events/recorder.ts';
import { followRefusedDevices } from './events/refused-devices.ts';
import { createShadowEvents } from './events/shadow.ts';
import { createSyncEvents } from './events/sync-events.ts';
import { createProxyHealth, type ProxyHealth } from './health/proxy-health.ts';
import { healthHandler } from './health/server.ts';
import {
  createServiceHealthServers,
  type ServiceHealthParts,
  type ServiceHealthServers,
} from './health/service-servers.ts';
import { type Listen, listenOnce } from './http/listen.ts';
import { openListeners, type ServerSpec } from './listeners.ts';
import { createMetrics, type Metrics } from './metrics/metrics.ts';
import type { AgentReaders, ServerReaders } from './metrics/readings.ts';
import { metricsHandler } from './metrics/server.ts';
import { createPendingChanges, type PendingChanges } from './pending-changes.ts';

export interface ServersSettings {
  readonly nodeName: string;
  readonly healthz: ListenAddress | undefined;
  readonly metrics: ListenAddress | undefined;
  readonly isBindFailureFatal: boolean;
  readonly syncPeriodMs: number;
  /** false: healthCheckNodePorts are left to another proxy; absent: they are served. */
  readonly hasServiceHealth?: boolean;
  readonly configz: () => Readonly<Record<string, unknown>>;
  readonly flagz: () => Readonly<Record<string, string>>;
}

export interface ServersParts {
  readonly settings: ServersSettings;
  readonly readers: AgentReaders;
  readonly sender: EventSender;
  /** Of this node, canonical. */
  readonly localAddresses: () => readonly string[];
  /** How all of them listen. */
  readonly listen?: Listen;
  readonly log: Logger;
}

export interface Servers {
  readonly events: EventRecorder;
  /** Must be called before the agent accepts the changes: they are pending until they are programmed. */
  arrived(changes: readonly ObjectChange[]): void;
  synced(facts: SyncFacts): void;
  conntrackCleaned: Metrics['conntrackCleaned'];
  /** What breaks Services on this node and has not done so before. */
  nodeConflicts(fresh: readonly Finding[]): void;
  /** Rules serve packets now, or eBPF again. */
  packetsMoved(): void;
  /** What an agent with --shadow has found. */
  shadowSeen(view: ShadowView): void;
  /** One request to the API server. */
  requested(request: RequestFacts): void;
  /** The configuration file was written, possibly with its original content. */
  configWritten(file: { readonly path: string; readonly isChanged: boolean }): void;
  /** The healthCheckNodePorts of all syncs so far are open, or have failed. */
  portsSynced(): Promise<void>;
  close(): void;
}

/** Rejects with BAD_OPTION if a port is in use and `isBindFailureFatal`. */
export async function openServers(parts: ServersParts): Promise<Servers> {
  const { settings, sender, log } = parts;
  const self = { kind: 'Node', name: settings.nodeName } as const;
  const health = createProxyHealth(2 * settings.syncPeriodMs);
  const events = createEventRecorder(sender, settings.nodeName);
  const serviceHealth = openServiceHealth(parts, { health, events });
  const pending = createPendingChanges(Date.now());
  const shown: Shown = { isConfigChanged: false, listening: () => ({}) };
  const metrics = createMetrics(
    { ...parts.readers, ...serverReaders({ health, events, serviceHealth, pending, shown }) },
    (metric, error) => log.warn({ metric, reason: reasonOf(error) }, 'metric cannot be read'),
  );
  const listeners = await openListeners(serverSpecs(parts, health, metrics), {
    ...{
      isBindFailureFatal: settings.isBindFailureFatal,
      nodeName: settings.nodeName,
      events,
      listen: parts.listen ?? listenOnce,
      log,
    },
  });
  shown.listening = listeners.listening;
  const endFullTables = followFullTables({
    ...{ tables: parts.readers.tables, nodeName: settings.nodeName, clock: SYSTEM_CLOCK },
    record: (...event) => events.record(...event),
  });
  const endRefusedDevices = followRefusedDevices({
    ...{ devices: parts.readers.earlyPaths, nodeName: settings.nodeName, clock: SYSTEM_CLOCK },
    record: (...event) => events.record(...event),
  });
  const tellMode = (): void => {
    const { engine, fallback } = parts.readers;
    events.record('ModeSelected', self, modeText(engine(), fallback()));
  };
  events.record('Starting', self, 'fairlead is starting');
  tellMode();
  return {
    events,
    ...syncListener({ health, events, metrics, serviceHealth, pending, settings, log }),
    conntrackCleaned: metrics.conntrackCleaned,
    nodeConflicts: createNodeConflicts((...event) => events.record(...event), settings.nodeName),
    packetsMoved: tellMode,
    shadowSeen: createShadowEvents((...event) => events.record(...event)),
    requested: metrics.requested,
    configWritten({ path, isChanged }) {
      shown.isConfigChanged = isChanged;
      if (isChanged)
        events.record('ConfigReloadNeeded', self, `${path} changed: restart the agent to apply it`);
    },
    portsSynced: () => serviceHealth.synced(),
    close() {
      endFullTables();
      endRefusedDevices();
      events.close();
      listeners.close();
      void serviceHealth.close();
    },
  };
}

/** Metrics about the servers themselves. */
interface Shown {
  isConfigChanged: boolean;
  listening: () => Readonly<Record<string, boolean>>;
}

interface Parts {
  readonly health: ProxyHealth;
  readonly events: EventRecorder;
  readonly serviceHealth: ServiceHealthServers;
  readonly pending: PendingChanges;
}

/** `dataplane iptables: Services are translated by rules; sockets and packets, because …`. */
function modeText(engine: string | undefined, fallback: Fallback | undefined): string {
  if (engine === 'shadow') return `dataplane shadow: ${LIMITATIONS.SHADOW}`;
  const how = engine === 'bpf' ? 'at the socket' : 'by rules';
  const why =
    fallback && `; ${fallback.what} by ${fallback.by ?? 'iptables'}, because ${fallback.reason}`;
  return `dataplane ${engine}: Services are translated ${how}${why ?? ''}`;
}

const serverReaders = (parts: Parts & { readonly shown: Shown }): ServerReaders => ({
  isNodeEligible: () => parts.health.isNodeEligible(),
  pendingChanges: () => ({
    services: parts.pending.count('Service'),
    endpoints: parts.pending.count('EndpointSlice'),
  }),
  listening: () => parts.shown.listening(),
  serviceHealthPorts: () => parts.serviceHealth.open().size,
  isReloadNeeded: () => parts.shown.isConfigChanged,
  events: () => parts.events.stats(),
});

function openServiceHealth(
  { localAddresses, listen, log }: ServersParts,
  { health, events }: Pick<Parts, 'health' | 'events'>,
): ServiceHealthServers {
  const parts: ServiceHealthParts = {
    isProxyHealthy: () => health.verdict().isHealthy,
    localAddresses,
    onFailure: ({ namespace, name, port, reason, isRepeated }) => {
      const fields = { service: `${namespace}/${name}`, port, reason };
      if (!isRepeated) log.warn(fields, 'healthCheckNodePort not served');
      const service = { kind: 'Service', namespace, name } as const;
      events.record('FailedToStartServiceHealthcheck', service, reason);
    },
    onRecovery: ({ namespace, name, port }) =>
      log.info({ service: `${namespace}/${name}`, port }, 'healthCheckNodePort served'),
  };
  return createServiceHealthServers(parts, listen);
}

function serverSpecs(
  { settings, readers }: ServersParts,
  health: ProxyHealth,
  metrics: Metrics,
): readonly ServerSpec[] {
  return [
    {
      name: 'healthz',
      at: settings.healthz,
      failureEvent: 'FailedToStartProxierHealthcheck',
      onRequest: healthHandler({ health, isReady: readers.isReady, onResponse: metrics.responded }),
    },
    {
      name: 'metrics',
      at: settings.metrics,
      failureEvent: 'FailedToStartMetricServer',
      onRequest: metricsHandler({
        metrics,
        configz: settings.configz,
        flagz: settings.flagz,
        version: readers.version,
        startedAt: new Date(),
      }),
    },
  ];
}

interface ListenerParts extends Parts {
  readonly metrics: Metrics;
  readonly settings: ServersSettings;
  readonly log: Logger;
}

function syncListener(parts: ListenerParts): Pick<Servers, 'arrived' | 'synced'> {
  const { health, events, metrics, serviceHealth, pending, settings, log } = parts;
  const families: readonly Family[] = existsSync('/proc/net/if_inet6')
    ? ['IPv4', 'IPv6']
    : ['IPv4'];
  const noteEvents = createSyncEvents((...event) => events.record(...event));
  let changed = new Set<ServiceKey>();
  const complete = (plan: SyncFacts['plan']): void => {
    for (const family of families) health.updated(family);
    const nowMs = Date.now();
    for (const { family, atMs } of pending.programmed()) metrics.programmed(family, nowMs - atMs);
    const services = changed;
    changed = new Set();
    if (settings.hasServiceHealth === false) return;
    serviceHealth.sync(plan, services).catch((error: unknown) => {
      log.warn({ reason: reasonOf(error) }, 'healthCheckNodePorts not synced');
    });
  };
  return {
    arrived(changes) {
      pending.arrived(changes);
      for (const family of families) {
        health.queued(family);
        metrics.syncAsked(family);
      }
      for (const change of changes) {
        metrics.arrived(change.ref.kind, 1);
        if (change.ref.kind !== 'Node' || change.ref.name !== settings.nodeName) continue;
        health.setNode(change.type === 'put' && isNodeEligible(change.object));
      }
    },
    synced({ plan, services, report, isFull, isComplete }) {
      for (const key of services) changed.add(key);
      const failed = report.failed.length;
      for (const family of services.length === 0 ? [] : families) {
        metrics.synced({ family, isFull, durationMs: report.elapsedMs, failed });
      }
      noteEvents({ plan, report });
      if (isComplete) complete(plan);
    },
  };
}
