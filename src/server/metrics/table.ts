// SPDX-License-Identifier: Apache-2.0
// Every metric there is, once. Names, labels and buckets of `kubeproxy_` and `rest_client_` are those of
// kube-proxy (pkg/proxy/metrics/metrics.go, k8s.io/component-base/metrics/prometheus/restclient), so that
// dashboards keep working; what only we have is `fairlead_`. docs/metrics.md is compared with this table
// by a test.

export interface MetricRow {
  readonly type: 'gauge' | 'counter' | 'histogram';
  readonly labels: readonly string[];
  /** Upper bounds in the unit of the name; histograms only. */
  readonly buckets?: readonly number[];
  readonly help: string;
}

/** 1 ms … 16.384 s, doubling. */
export const SYNC_BUCKETS: readonly number[] = Array.from({ length: 15 }, (_, k) => 2 ** k / 1000);

const steps = (from: number, to: number, step: number): readonly number[] =>
  Array.from({ length: (to - from) / step + 1 }, (_, k) => from + k * step);

/** A quarter of a second … five minutes: finer where the objective of the SLO lies. */
export const PROGRAMMING_BUCKETS: readonly number[] = [
  0.25,
  0.5,
  ...steps(1, 59, 1),
  ...steps(60, 115, 5),
  ...steps(120, 300, 30),
];

const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];

const gauge = (labels: string, help: string): MetricRow => ({
  type: 'gauge',
  labels: names(labels),
  help,
});
const counter = (labels: string, help: string): MetricRow => ({
  type: 'counter',
  labels: names(labels),
  help,
});
const histogram = (labels: string, buckets: readonly number[], help: string): MetricRow => ({
  type: 'histogram',
  labels: names(labels),
  buckets,
  help,
});
const names = (labels: string): readonly string[] => (labels === '' ? [] : labels.split(' '));

const KUBE_PROXY = {
  kubeproxy_sync_proxy_rules_duration_seconds: histogram(
    'ip_family',
    SYNC_BUCKETS,
    'How long a sync took.',
  ),
  kubeproxy_sync_full_proxy_rules_duration_seconds: histogram(
    'ip_family',
    SYNC_BUCKETS,
    'How long a sync of every Service took.',
  ),
  kubeproxy_sync_partial_proxy_rules_duration_seconds: histogram(
    'ip_family',
    SYNC_BUCKETS,
    'How long a sync of the changed Services alone took.',
  ),
  kubeproxy_sync_proxy_rules_last_timestamp_seconds: gauge(
    'ip_family',
    'When the last successful sync ended.',
  ),
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds: gauge(
    'ip_family',
    'When a sync was last asked for.',
  ),
  kubeproxy_network_programming_duration_seconds: histogram(
    'ip_family',
    PROGRAMMING_BUCKETS,
    'From the change of an endpoint to its being in the kernel.',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: gauge(
    '',
    'EndpointSlice changes that are not in the kernel yet.',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_total: counter(
    '',
    'EndpointSlice changes that arrived.',
  ),
  kubeproxy_sync_proxy_rules_service_changes_pending: gauge(
    '',
    'Service changes that are not in the kernel yet.',
  ),
  kubeproxy_sync_proxy_rules_service_changes_total: counter('', 'Service changes that arrived.'),
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: gauge(
    'traffic_policy ip_family',
    'Service ports with a Local policy that have endpoints, none of them on this node.',
  ),
  kubeproxy_proxy_healthz_total: counter('code', 'Answers of /healthz.'),
  kubeproxy_proxy_livez_total: counter('code', 'Answers of /livez.'),
  rest_client_requests_total: counter(
    'code method host',
    'Requests to the API server that were answered.',
  ),
  rest_client_request_duration_seconds: histogram(
    'verb host',
    REQUEST_BUCKETS,
    'How long the API server took to answer.',
  ),
} as const satisfies Readonly<Record<string, MetricRow>>;

const OWN = {
  fairlead_build_info: gauge('version node_version', 'Always 1.'),
  fairlead_engine_info: gauge('engine', 'Always 1, for the engine that programs the kernel.'),
  fairlead_ready: gauge('', '1 once the first complete plan is in the kernel.'),
  fairlead_node_eligible: gauge('', '1 while load balancers may send to this node.'),
  fairlead_services: gauge('', 'Services in the plan.'),
  fairlead_refused_inputs: gauge('kind', 'Objects or fields that are refused at present.'),
  fairlead_table_entries: gauge('table', 'Entries in use of a kernel table.'),
  fairlead_table_capacity: gauge('table', 'Entries a kernel table can hold.'),
  fairlead_failed_entries: gauge(
    '',
    'Entries the kernel refuses at present; they are tried again.',
  ),
  fairlead_update_errors_total: counter('', 'Entries the kernel refused, each try counted.'),
  fairlead_drift_total: counter(
    '',
    'Differences between kernel and plan that audits found and repaired.',
  ),
  fairlead_last_audit_timestamp_seconds: gauge(
    '',
    'When the kernel was last read back and compared.',
  ),
  fairlead_watch_age_seconds: gauge('kind', 'Time since the source last gave a sign of life.'),
  fairlead_outcomes_total: counter('reason', 'What became of connections and packets, by reason.'),
  fairlead_service_connections_total: counter(
    'namespace service port protocol ip_family',
    'Connections to a Service port; only the busiest, see metricsTopServices.',
  ),
  fairlead_listening: gauge('server', '1 while a server has its port.'),
  fairlead_service_health_ports: gauge('', 'healthCheckNodePorts that answer.'),
  fairlead_config_reload_needed: gauge('', '1 if the configuration file changed since the start.'),
  fairlead_event_failures_total: counter('', 'Kubernetes Events that could not be sent.'),
  fairlead_events_dropped_total: counter('', 'Kubernetes Events dropped because too many waited.'),
  fairlead_metric_failures_total: counter('metric', 'Metrics that could not be read for a page.'),
} as const satisfies Readonly<Record<string, MetricRow>>;

export const METRICS = { ...KUBE_PROXY, ...OWN };
export type MetricName = keyof typeof METRICS;
