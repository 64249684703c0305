// SPDX-License-Identifier: Apache-2.0
// What the parts of a running agent can tell, as plain getters, and the series they become. Labels are
// bounded: kinds, tables and reasons are fixed sets, Services only the busiest few.
import type { Family } from '../../model/types.ts';
import type { Plan } from '../../plan/types.ts';
import type { Readings, ReadSamples, Sample } from './registry.ts';

export interface ServiceConnections {
  readonly namespace: string;
  readonly service: string;
  readonly port: string;
  readonly protocol: string;
  readonly family: Family;
  readonly connections: number;
}

/** Getters left out leave their metrics empty. */
export interface MetricReaders {
  readonly version: string;
  readonly engine?: () => string | undefined;
  readonly isReady?: () => boolean;
  readonly isNodeEligible?: () => boolean;
  readonly plan?: () => Plan | undefined;
  readonly pendingChanges?: () => { readonly services: number; readonly endpoints: number };
  readonly tables?: () => readonly {
    readonly name: string;
    readonly used: number;
    readonly capacity: number;
  }[];
  readonly failedEntries?: () => number;
  readonly driftTotal?: () => number;
  readonly lastAuditAt?: () => Date | undefined;
  /** Milliseconds since the last sign of life, by kind. */
  readonly watchAgesMs?: () => Readonly<Record<string, number>>;
  readonly reasons?: () => Readonly<Record<string, number>>;
  readonly serviceConnections?: () => Iterable<ServiceConnections>;
  /** How many of those to show, the busiest first. */
  readonly topServices?: number;
  readonly listening?: () => Readonly<Record<string, boolean>>;
  readonly serviceHealthPorts?: () => number;
  readonly isReloadNeeded?: () => boolean;
  readonly events?: () => { readonly failed: number; readonly dropped: number };
}

export function readingsOf(readers: MetricReaders): Readings {
  return { ...ofAgent(readers), ...ofPlan(readers), ...ofKernel(readers) };
}

function ofAgent(readers: MetricReaders): Readings {
  const { version, events } = readers;
  return {
    fairlead_build_info: () => one({ version, node_version: process.version }, 1),
    ...on('fairlead_engine_info', readers.engine, (engine) => one({ engine }, 1)),
    ...on('fairlead_ready', readers.isReady, (is) => one({}, Number(is))),
    ...on('fairlead_listening', readers.listening, (servers) => by('server', servers)),
    ...on('fairlead_service_health_ports', readers.serviceHealthPorts, (count) => one({}, count)),
    ...on('fairlead_config_reload_needed', readers.isReloadNeeded, (is) => one({}, Number(is))),
    ...on('fairlead_event_failures_total', events, ({ failed }) => one({}, failed)),
    ...on('fairlead_events_dropped_total', events, ({ dropped }) => one({}, dropped)),
  };
}

function ofPlan(readers: MetricReaders): Readings {
  const { plan, pendingChanges } = readers;
  return {
    ...on('fairlead_node_eligible', readers.isNodeEligible, (is) => one({}, Number(is))),
    ...on('fairlead_services', plan, ({ services }) => one({}, services.size)),
    ...on('fairlead_refused_inputs', plan, refusedInputs),
    ...on('fairlead_watch_age_seconds', readers.watchAgesMs, (ages) => by('kind', ages, 1000)),
    ...on('kubeproxy_sync_proxy_rules_no_local_endpoints_total', plan, noLocalEndpoints),
    ...on('kubeproxy_sync_proxy_rules_service_changes_pending', pendingChanges, (pending) =>
      one({}, pending.services),
    ),
    ...on('kubeproxy_sync_proxy_rules_endpoint_changes_pending', pendingChanges, (pending) =>
      one({}, pending.endpoints),
    ),
  };
}

function ofKernel(readers: MetricReaders): Readings {
  const { tables, topServices = 0 } = readers;
  return {
    ...on('fairlead_table_entries', tables, (rows) =>
      rows.map(({ name, used }) => ({ labels: { table: name }, value: used })),
    ),
    ...on('fairlead_table_capacity', tables, (rows) =>
      rows.map(({ name, capacity }) => ({ labels: { table: name }, value: capacity })),
    ),
    ...on('fairlead_failed_entries', readers.failedEntries, (count) => one({}, count)),
    ...on('fairlead_drift_total', readers.driftTotal, (count) => one({}, count)),
    ...on('fairlead_last_audit_timestamp_seconds', readers.lastAuditAt, (at) =>
      one({}, at.getTime() / 1000),
    ),
    ...on('fairlead_outcomes_total', readers.reasons, (reasons) => by('reason', reasons)),
    ...on('fairlead_service_connections_total', readers.serviceConnections, (all) =>
      busiest(all, topServices),
    ),
  };
}

const one = (labels: Sample['labels'], value: number): readonly Sample[] => [{ labels, value }];

const by = (
  label: string,
  values: Readonly<Record<string, number | boolean>>,
  unit = 1,
): readonly Sample[] =>
  Object.entries(values).map(([key, value]) => ({
    labels: { [label]: key },
    value: Number(value) / unit,
  }));

/** No getter, no reading; a getter without a value, no series. */
function on<T>(
  name: keyof Readings,
  read: (() => T | undefined) | undefined,
  samples: (value: T) => readonly Sample[],
): Readings {
  if (read === undefined) return {};
  const readSamples: ReadSamples = () => {
    const value = read();
    return value === undefined ? [] : samples(value);
  };
  return { [name]: readSamples };
}

function refusedInputs({ rejections }: Plan): readonly Sample[] {
  const counts: Record<string, number> = { Service: 0, EndpointSlice: 0, Node: 0, ServiceCIDR: 0 };
  for (const { object } of rejections) counts[object.kind] = (counts[object.kind] ?? 0) + 1;
  return by('kind', counts);
}

/** The n with most connections; equal ones in the order they came. n log n in all. */
function busiest(all: Iterable<ServiceConnections>, count: number): readonly Sample[] {
  if (count <= 0) return [];
  return [...all]
    .sort((a, b) => b.connections - a.connections)
    .slice(0, count)
    .map(({ connections, family, ...labels }) => ({
      labels: { ...labels, ip_family: family },
      value: connections,
    }));
}

/** Ports whose Local policy leaves them without endpoints here, though the Service has some (topology.go). */
export function noLocalEndpoints({ services }: Pick<Plan, 'services'>): readonly Sample[] {
  const counts = new Map<string, number>();
  for (const { ports } of services.values()) {
    for (const { family, serving, local, frontends } of ports) {
      if (serving.length === 0 || local.length > 0) continue;
      const policies = new Set(
        frontends
          .filter(({ paths }) => paths.outside.scope === 'local')
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
