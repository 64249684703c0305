// SPDX-License-Identifier: Apache-2.0
// Metrics that are read at each scrape. The number of label values is bounded: kinds, maps and reasons are fixed
// sets, and Services are limited to those with the most connections.
import type { Limitation } from '../../engines/capabilities.ts';
import type { EarlyView, Fallback, StaleSocketsState, Traffic } from '../../engines/snapshot.ts';
import type { Problem } from '../../model/problem.ts';
import type { Family, Rejection } from '../../model/types.ts';
import type { HistoryView } from '../../observe/history-view.ts';
import type { ShadowView } from '../../observe/shadow-view.ts';
import type { Finding } from '../../on-node/finding.ts';
import { TOPIC_NAMES } from '../../on-node/topics.ts';
import { peerCounts } from '../../plan/direct-return/peers.ts';
import type { Plan } from '../../plan/types.ts';
import type { Readings, ReadSamples, Sample } from './registry.ts';

export interface ServicePortLabels {
  readonly namespace: string;
  readonly service: string;
  readonly port: string;
  readonly protocol: string;
  readonly family: Family;
}

export interface ServiceConnections extends ServicePortLabels {
  readonly refused: number;
  readonly dropped: number;
  readonly connections: number;
}

export interface ServiceTraffic extends ServicePortLabels {
  readonly toBackend: Traffic;
  readonly toClient: Traffic;
}

/** Getters of the agent. One that returns undefined has no series. */
export interface AgentReaders {
  readonly version: string;
  /** Name of the dataplane that programs the kernel. */
  readonly engine: () => string | undefined;
  /** What the dataplanes in use cannot do. */
  readonly limitations: () => readonly Limitation<string>[];
  /** What else is on the node. */
  readonly findings: () => readonly Finding[];
  /** What an agent with --shadow has found. */
  readonly shadow: () => ShadowView | undefined;
  /** undefined: no history is kept. */
  readonly history: () => HistoryView | undefined;
  /** What iptables serves because eBPF cannot. */
  readonly fallback: () => Fallback | undefined;
  readonly isReady: () => boolean;
  readonly plan: () => Plan | undefined;
  /** Of a folder of manifests: files and objects that cannot be read. */
  readonly sourceProblems: () => readonly Problem[];
  readonly tables: () => readonly {
    readonly name: string;
    readonly used: number;
    readonly capacity: number;
  }[];
  readonly failedEntries: () => number;
  readonly driftTotal: () => number;
  readonly lastAuditAt: () => Date | undefined;
  /** Milliseconds since the last response of the API server, by kind. */
  readonly watchAgesMs: () => Readonly<Record<string, number>>;
  readonly reasons: () => Readonly<Record<string, number>>;
  readonly staleSockets: () => StaleSocketsState | undefined;
  /** Devices that are to forward before the network stack, and what has become of it. */
  readonly earlyPaths: () => readonly (EarlyView & { readonly device: string })[];
  readonly serviceConnections: () => Iterable<ServiceConnections>;
  readonly serviceTraffic: () => Iterable<ServiceTraffic>;
  /** How many of those to show, the busiest first. */
  readonly topServices: number;
}

/** Getters of the servers. */
export interface ServerReaders {
  readonly isNodeEligible: () => boolean;
  readonly pendingChanges: () => { readonly services: number; readonly endpoints: number };
  readonly listening: () => Readonly<Record<string, boolean>>;
  readonly serviceHealthPorts: () => number;
  readonly isReloadNeeded: () => boolean;
  readonly events: () => { readonly failed: number; readonly dropped: number };
}

export type MetricReaders = AgentReaders & ServerReaders;

export function readingsOf(readers: MetricReaders, nowMs: () => number): Readings {
  return {
    ...{ ...ofAgent(readers), ...ofPlan(readers, nowMs), ...ofKernel(readers) },
    ...ofShadow(readers),
    ...ofHistory(readers),
  };
}

/** No series of a comparison that has not been made. */
function ofShadow({ shadow }: MetricReaders): Readings {
  const last = (): ShadowView | undefined => {
    const view = shadow();
    return view?.comparedAt === undefined ? undefined : view;
  };
  return {
    ...on('fairlead_shadow_cannot_compare', shadow, ({ problem }) =>
      one({}, Number(problem !== undefined)),
    ),
    ...on('fairlead_shadow_differences', last, ({ differences }) => by('reason', differences)),
    ...on('fairlead_shadow_differing_services', last, ({ differing }) => one({}, differing.length)),
    ...on('fairlead_shadow_compared_services', last, ({ services }) => one({}, services)),
    ...on('fairlead_shadow_unread_rules', last, ({ unread }) => one({}, unread.length)),
    ...on('fairlead_shadow_last_comparison_timestamp_seconds', last, ({ comparedAt = '' }) =>
      one({}, Date.parse(comparedAt) / 1000),
    ),
    ...on('fairlead_shadow_last_comparison_duration_seconds', last, ({ durationMs = 0 }) =>
      one({}, durationMs / 1000),
    ),
  };
}

const ofHistory = ({ history }: MetricReaders): Readings => ({
  ...on('fairlead_history_bytes', history, ({ bytes }) => one({}, bytes)),
  ...on('fairlead_history_written_bytes_total', history, ({ writtenBytes }) =>
    one({}, writtenBytes),
  ),
  ...on('fairlead_history_errors_total', history, ({ errors }) => one({}, errors)),
  ...on('fairlead_history_lost_changes_total', history, ({ lostChanges }) => one({}, lostChanges)),
});

function ofAgent(readers: MetricReaders): Readings {
  const { version, events } = readers;
  return {
    fairlead_build_info: () => one({ version, node_version: process.version }, 1),
    ...on('fairlead_dataplane_info', readers.engine, (dataplane) => one({ dataplane }, 1)),
    ...on('fairlead_dataplane_limitation', readers.limitations, (limitations) =>
      limitations.map(({ dataplane, code }) => ({ labels: { dataplane, code }, value: 1 })),
    ),
    ...on('fairlead_node_findings', readers.findings, findingCounts),
    ...on('fairlead_direct_return_peers', readers.plan, (plan) => peersOf(plan)),
    ...on('fairlead_ready', readers.isReady, (is) => one({}, Number(is))),
    ...on('fairlead_listening', readers.listening, (servers) => by('server', servers)),
    ...on('fairlead_service_health_ports', readers.serviceHealthPorts, (count) => one({}, count)),
    ...on('fairlead_config_reload_needed', readers.isReloadNeeded, (is) => one({}, Number(is))),
    ...on('fairlead_event_failures_total', events, ({ failed }) => one({}, failed)),
    ...on('fairlead_events_dropped_total', events, ({ dropped }) => one({}, dropped)),
  };
}

/** Every topic has its two series: an alert ends when they are 0 again. */
const findingCounts = (findings: readonly Finding[]): readonly Sample[] =>
  TOPIC_NAMES.flatMap((topic) =>
    [true, false].map((breaks) => ({
      labels: { topic, breaks: String(breaks) },
      value: findings.filter((one) => one.topic === topic && one.breaksServices === breaks).length,
    })),
  );

/** No series while nobody asks for direct return. */
function peersOf(plan: Plan): readonly Sample[] {
  const counts = peerCounts(plan);
  return counts === undefined ? [] : one({}, counts.willing);
}

function ofPlan(readers: MetricReaders, nowMs: () => number): Readings {
  const { plan, pendingChanges } = readers;
  return {
    ...on('fairlead_node_eligible', readers.isNodeEligible, (is) => one({}, Number(is))),
    ...on('fairlead_services', plan, ({ services }) => one({}, services.size)),
    ...on('fairlead_rejected_inputs', plan, ({ rejections }) =>
      rejectedInputs(rejections, readers.sourceProblems()),
    ),
    ...on('fairlead_watch_last_activity_timestamp_seconds', readers.watchAgesMs, (ages) =>
      Object.entries(ages).map(([kind, ageMs]) => ({
        labels: { kind },
        value: (nowMs() - ageMs) / 1000,
      })),
    ),
    ...on('kubeproxy_sync_proxy_rules_no_local_endpoints_total', plan, noLocalEndpoints),
    ...on('kubeproxy_sync_proxy_rules_service_changes_pending', pendingChanges, (pending) =>
      one({}, pending.services),
    ),
    ...on('kubeproxy_sync_proxy_rules_endpoint_changes_pending', pendingChanges, (pending) =>
      one({}, pending.endpoints),
    ),
  };
}

function ofEarlyPaths({ earlyPaths }: MetricReaders): Readings {
  const frames = (field: 'sent' | 'lost') =>
    on(`fairlead_xdp_${field}_frames_total`, earlyPaths, (devices) =>
      devices.map((one) => ({ labels: { device: one.device }, value: one[field] })),
    );
  return {
    ...on('fairlead_xdp_device', earlyPaths, (devices) =>
      devices.map(({ device, state }) => ({ labels: { device, state }, value: 1 })),
    ),
    ...frames('sent'),
    ...frames('lost'),
  };
}

function ofKernel(readers: MetricReaders): Readings {
  const { tables } = readers;
  return {
    ...on('fairlead_map_entries', tables, (rows) =>
      rows.map(({ name, used }) => ({ labels: { map: name }, value: used })),
    ),
    ...on('fairlead_map_max_entries', tables, (rows) =>
      rows.map(({ name, capacity }) => ({ labels: { map: name }, value: capacity })),
    ),
    ...on('fairlead_failed_entries', readers.failedEntries, (count) => one({}, count)),
    ...on('fairlead_drift_total', readers.driftTotal, (count) => one({}, count)),
    ...on('fairlead_last_audit_timestamp_seconds', readers.lastAuditAt, (at) =>
      one({}, at.getTime() / 1000),
    ),
    ...on('fairlead_outcomes_total', readers.reasons, (reasons) => by('reason', reasons)),
    ...on('fairlead_stale_sockets_destroyed_total', readers.staleSockets, ({ destroyed }) =>
      destroyed.map(({ protocol, family, count }) => ({
        labels: { protocol, ip_family: family },
        value: count,
      })),
    ),
    ...on('fairlead_stale_sockets_connected_total', readers.staleSockets, ({ connected }) =>
      one({}, connected),
    ),
    ...on('fairlead_stale_sockets_served', readers.staleSockets, ({ served }) => one({}, served)),
    ...on('fairlead_stale_sockets', readers.staleSockets, ({ left, waiting }) =>
      one(
        {},
        left.reduce((sum, { count }) => sum + count, waiting),
      ),
    ),
    ...on('fairlead_stale_sockets_refused', readers.staleSockets, ({ refused }) =>
      one({}, refused),
    ),
    ...ofEarlyPaths(readers),
    ...ofServices(readers),
  };
}

function ofServices({ serviceConnections, serviceTraffic, topServices }: MetricReaders): Readings {
  const traffic = (unit: keyof Traffic) => (all: Iterable<ServiceTraffic>) =>
    busiest(all, topServices, bytesOf).flatMap((row) => [
      { labels: { ...labelsOf(row), direction: 'to_backend' }, value: row.toBackend[unit] },
      { labels: { ...labelsOf(row), direction: 'to_client' }, value: row.toClient[unit] },
    ]);
  return {
    ...on('fairlead_service_connections_total', serviceConnections, (all) =>
      busiest(all, topServices, ({ connections }) => connections).map((row) => ({
        labels: labelsOf(row),
        value: row.connections,
      })),
    ),
    ...on('fairlead_service_unserved_total', serviceConnections, (all) =>
      busiest(all, topServices, ({ refused, dropped }) => refused + dropped).flatMap((row) => [
        { labels: { ...labelsOf(row), verdict: 'refused' }, value: row.refused },
        { labels: { ...labelsOf(row), verdict: 'dropped' }, value: row.dropped },
      ]),
    ),
    ...on('fairlead_service_packets_total', serviceTraffic, traffic('packets')),
    ...on('fairlead_service_bytes_total', serviceTraffic, traffic('bytes')),
  };
}

const bytesOf = ({ toBackend, toClient }: ServiceTraffic): number =>
  toBackend.bytes + toClient.bytes;

const labelsOf = ({ namespace, service, port, protocol, family }: ServicePortLabels) => ({
  ...{ namespace, service, port, protocol, ip_family: family },
});

const one = (labels: Sample['labels'], value: number): readonly Sample[] => [{ labels, value }];

const by = (label: string, values: Readonly<Record<string, number | boolean>>): readonly Sample[] =>
  Object.entries(values).map(([key, value]) => ({
    labels: { [label]: key },
    value: Number(value),
  }));

/** No series if the getter returns undefined. */
function on<T>(
  name: keyof Readings,
  read: () => T | undefined,
  samples: (value: T) => readonly Sample[],
): Readings {
  const readSamples: ReadSamples = () => {
    const value = read();
    return value === undefined ? [] : samples(value);
  };
  return { [name]: readSamples };
}

/** Rejected objects and fields by kind, and manifests that cannot be read. */
function rejectedInputs(
  rejections: readonly Rejection[],
  problems: readonly Problem[],
): readonly Sample[] {
  const counts = { Service: 0, EndpointSlice: 0, Node: 0, ServiceCIDR: 0, Manifest: 0 };
  for (const { object, isWarning } of rejections) if (isWarning !== true) counts[object.kind]++;
  for (const { object, file, isWarning } of problems) {
    if (isWarning === true) continue;
    if (object !== undefined) counts[object.kind]++;
    else if (file !== undefined) counts.Manifest++;
  }
  return by('kind', counts);
}

/** The n that count most; a stable sort. */
function busiest<T>(all: Iterable<T>, count: number, of: (row: T) => number): readonly T[] {
  if (count <= 0) return [];
  return [...all].sort((a, b) => of(b) - of(a)).slice(0, count);
}

/** Ports that have endpoints but, because of a Local policy, none on this node (topology.go). */
export function noLocalEndpoints({ services }: Pick<Plan, 'services'>): readonly Sample[] {
  const counts = new Map<string, number>();
  for (const { ports } of services.values()) {
    for (const { family, serving, local, frontends } of ports) {
      if (serving.length === 0 || local.length > 0) continue;
      const policies = new Set(
        frontends
          .filter(({ rules }) => rules.outside.scope === 'local')
          .map(({ kind }) => (kind === 'ClusterIP' ? 'internal' : 'external')),
      );
      for (const policy of policies) {
        const key = `${policy} ${family}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
  }
  return ['internal', 'external'].flatMap((policy) =>
    ['IPv4', 'IPv6'].map((family) => ({
      labels: { traffic_policy: policy, ip_family: family },
      value: counts.get(`${policy} ${family}`) ?? 0,
    })),
  );
}
