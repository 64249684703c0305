// SPDX-License-Identifier: Apache-2.0
// The table of all metrics. Names, labels and buckets of `kubeproxy_` and `rest_client_` are those of
// kube-proxy (pkg/proxy/metrics/metrics.go, k8s.io/component-base/metrics/prometheus/restclient), so that
// dashboards keep working; metrics that kube-proxy does not have begin with `fairlead_`.

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

/** 0.25 s … 5 min, finer around the objective of the SLO. */
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
    'Duration of a sync.',
  ),
  kubeproxy_sync_full_proxy_rules_duration_seconds: histogram(
    'ip_family',
    SYNC_BUCKETS,
    'Duration of a sync of every Service.',
  ),
  kubeproxy_sync_partial_proxy_rules_duration_seconds: histogram(
    'ip_family',
    SYNC_BUCKETS,
    'Duration of a sync of the changed Services alone.',
  ),
  kubeproxy_sync_proxy_rules_last_timestamp_seconds: gauge(
    'ip_family',
    'Unix time at which the last successful sync ended.',
  ),
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds: gauge(
    'ip_family',
    'Unix time at which a sync was last requested.',
  ),
  kubeproxy_network_programming_duration_seconds: histogram(
    'ip_family',
    PROGRAMMING_BUCKETS,
    'Time from the change of an endpoint until it was programmed.',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: gauge(
    '',
    'EndpointSlices with changes that are not programmed yet.',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_total: counter('', 'EndpointSlice changes received.'),
  kubeproxy_sync_proxy_rules_service_changes_pending: gauge(
    '',
    'Services with changes that are not programmed yet.',
  ),
  kubeproxy_sync_proxy_rules_service_changes_total: counter('', 'Service changes received.'),
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: gauge(
    'traffic_policy ip_family',
    'Service ports with a Local traffic policy that have endpoints, but none on this node.',
  ),
  kubeproxy_conntrack_reconciler_sync_duration_seconds: histogram(
    'ip_family',
    SYNC_BUCKETS,
    'Duration of a pass over the conntrack table that deletes stale entries.',
  ),
  kubeproxy_conntrack_reconciler_deleted_entries_total: counter(
    'ip_family',
    'Stale conntrack entries deleted.',
  ),
  kubeproxy_proxy_healthz_total: counter('code', 'Responses of /healthz.'),
  kubeproxy_proxy_livez_total: counter('code', 'Responses of /livez.'),
  rest_client_requests_total: counter(
    'code method host',
    'Requests to the API server; code is <error> if no response came.',
  ),
  rest_client_request_duration_seconds: histogram(
    'verb host',
    REQUEST_BUCKETS,
    "Time until the headers of the API server's response arrived.",
  ),
} as const satisfies Readonly<Record<string, MetricRow>>;

const OWN = {
  fairlead_build_info: gauge('version node_version', 'Always 1.'),
  fairlead_dataplane_info: gauge(
    'dataplane',
    'Always 1, for the dataplane that programs the kernel.',
  ),
  fairlead_dataplane_limitation: gauge(
    'dataplane code',
    'Always 1, for each thing that a dataplane in use cannot do; see docs/semantics.md.',
  ),
  fairlead_node_findings: gauge(
    'topic breaks',
    'What else is on the node, by topic, as `fairlead status` lists it; breaks="true": Services do not work until it is changed.',
  ),
  fairlead_direct_return_peers: gauge(
    '',
    'Other nodes that take requests for direct return, while a Service asks for it.',
  ),
  fairlead_ready: gauge('', '1 once the initial sync is programmed.'),
  fairlead_node_eligible: gauge(
    '',
    '1 while load balancers may send traffic to this node (KEP-3836).',
  ),
  fairlead_services: gauge('', 'Services this node should serve.'),
  fairlead_rejected_inputs: gauge('kind', 'Objects, fields and manifests that are rejected now.'),
  fairlead_map_entries: gauge('map', 'Entries of a map that are in use.'),
  fairlead_map_max_entries: gauge('map', 'Entries a map can hold.'),
  fairlead_failed_entries: gauge('', 'Entries that could not be programmed and are retried.'),
  fairlead_update_errors_total: counter(
    '',
    'Entries that could not be programmed, each attempt counted.',
  ),
  fairlead_drift_total: counter(
    '',
    'Differences between programmed and desired state that audits found and repaired.',
  ),
  fairlead_last_audit_timestamp_seconds: gauge(
    '',
    'Unix time of the last audit of the programmed state.',
  ),
  fairlead_watch_last_activity_timestamp_seconds: gauge(
    'kind',
    'Unix time at which the watch last received anything.',
  ),
  fairlead_outcomes_total: counter('reason', 'Decisions of the BPF programs, by reason.'),
  fairlead_service_connections_total: counter(
    'namespace service port protocol ip_family',
    'Connections to a Service port; only the busiest, see metricsTopServices.',
  ),
  fairlead_service_unserved_total: counter(
    'namespace service port protocol ip_family verdict',
    'Connections to a Service port that were refused or dropped; only the Services with most, see metricsTopServices.',
  ),
  fairlead_stale_sockets_destroyed_total: counter(
    'protocol ip_family',
    'Sockets that were destroyed because their backend is gone.',
  ),
  fairlead_stale_sockets_connected_total: counter(
    '',
    'UDP sockets that were connected to another backend because theirs is gone.',
  ),
  fairlead_stale_sockets_served: gauge(
    '',
    'Sockets of pods whose backend is gone and whose datagrams go to another backend as packets.',
  ),
  fairlead_stale_sockets: gauge(
    '',
    'Sockets whose backend is gone and that are as they were: they could not be destroyed, or wait for a backend.',
  ),
  fairlead_stale_sockets_refused: gauge(
    '',
    'Sockets of pods whose backend is gone and whose next datagram is refused, because they could not be destroyed.',
  ),
  fairlead_xdp_device: gauge(
    'device state',
    'Always 1, for each device that --xdp asks for: waiting, trial, on or refused.',
  ),
  fairlead_xdp_sent_frames_total: counter(
    'device',
    'Frames that the driver of a device took from XDP, since its last trial.',
  ),
  fairlead_xdp_lost_frames_total: counter(
    'device',
    'Frames that XDP had to drop because the driver of a device did not take them, since its last trial.',
  ),
  fairlead_service_packets_total: counter(
    'namespace service port protocol ip_family direction',
    'Packets translated for a Service port, as of the previous scrape; only the busiest, see metricsTopServices.',
  ),
  fairlead_service_bytes_total: counter(
    'namespace service port protocol ip_family direction',
    'The same in bytes, with network headers.',
  ),
  fairlead_shadow_cannot_compare: gauge(
    '',
    'With --shadow: 1 if there are no rules to compare with, or they cannot be read.',
  ),
  fairlead_shadow_differences: gauge(
    'reason',
    'Differences between the plan and the rules of kube-proxy, by known reason, or unexplained.',
  ),
  fairlead_shadow_differing_services: gauge('', 'Services with unexplained differences.'),
  fairlead_shadow_compared_services: gauge('', 'Services that were compared.'),
  fairlead_shadow_unread_rules: gauge(
    '',
    'Rules of kube-proxy that the comparison could not read.',
  ),
  fairlead_shadow_last_comparison_timestamp_seconds: gauge(
    '',
    'Unix time at which the last comparison ended.',
  ),
  fairlead_shadow_last_comparison_duration_seconds: gauge(
    '',
    'How long the last comparison took, with its pauses.',
  ),
  fairlead_history_bytes: gauge('', 'Size of the history on disk.'),
  fairlead_history_written_bytes_total: counter(
    '',
    'Bytes written to the history since the start.',
  ),
  fairlead_history_errors_total: counter('', 'Writes of the history that failed.'),
  fairlead_history_lost_changes_total: counter(
    '',
    'Changes that are not in the history because they could not be written.',
  ),
  fairlead_listening: gauge('server', '1 while the server listens on its port.'),
  fairlead_service_health_ports: gauge('', 'healthCheckNodePorts being served.'),
  fairlead_config_reload_needed: gauge(
    '',
    '1 if the configuration file changed after the agent read it.',
  ),
  fairlead_event_failures_total: counter('', 'Kubernetes Events the API server did not accept.'),
  fairlead_events_dropped_total: counter(
    '',
    'Kubernetes Events dropped because the queue was full.',
  ),
} as const satisfies Readonly<Record<string, MetricRow>>;

export const METRICS = { ...KUBE_PROXY, ...OWN };
export type MetricName = keyof typeof METRICS;
