// SPDX-License-Identifier: Apache-2.0
// Scrapes of a live agent's /metrics, and which metrics changed between them.

import { METRICS, type MetricName } from '../../../src/server/metrics/metric-rows.ts';
import type { Sandbox } from '../../../tools/lab/sandbox.ts';
import { getInSandbox } from './get.ts';

/** The metrics that only an agent with an API server has. */
export const API_SERVER_METRICS: readonly MetricName[] = [
  'rest_client_requests_total',
  'rest_client_request_duration_seconds',
  'fairlead_ready',
  'fairlead_watch_last_activity_timestamp_seconds',
  'fairlead_event_failures_total',
  'fairlead_events_dropped_total',
];
/** Those of an agent with the packet layer. */
export const PACKET_METRICS: readonly MetricName[] = [
  'fairlead_service_packets_total',
  'fairlead_service_bytes_total',
];
/** Those that netfilter's connection tracking has to be active for: test/integration/netns/conntrack/agent.test.ts. */
const CONNTRACK_METRICS: readonly MetricName[] = [
  'kubeproxy_conntrack_reconciler_sync_duration_seconds',
  'kubeproxy_conntrack_reconciler_deleted_entries_total',
];
/** Those of an agent that may neither destroy nor refuse: test/integration/netns/stale/refused.test.ts. */
const POWERLESS_METRICS: readonly MetricName[] = ['fairlead_stale_sockets'];
/** Those of an agent with XDP on a device: test/integration/netns/xdp/devices.test.ts. */
export const XDP_METRICS: readonly MetricName[] = [
  'fairlead_xdp_device',
  'fairlead_xdp_sent_frames_total',
  'fairlead_xdp_lost_frames_total',
];
/** Those of an agent that knows other nodes: test/integration/netns/devices/direct-return.test.ts. */
export const PEER_METRICS: readonly MetricName[] = ['fairlead_direct_return_peers'];
/** Those of an agent that leaves stale sockets of pods to packets: test/integration/nodes/statsd.test.ts. */
export const STALE_POD_METRICS: readonly MetricName[] = ['fairlead_stale_sockets_served'];
/** Those of a node with something else on it: test/integration/nodes/on-this-node.test.ts. */
const NODE_METRICS: readonly MetricName[] = ['fairlead_node_findings'];
/** Those of an agent with --shadow: test/integration/oracle/shadow.test.ts. */
const SHADOW_METRICS = (Object.keys(METRICS) as MetricName[]).filter((name) =>
  name.startsWith('fairlead_shadow_'),
);
/** A disk that fails: test/unit/instance/history/recorder.test.ts. */
const HISTORY_METRICS: readonly MetricName[] = [
  'fairlead_history_errors_total',
  'fairlead_history_lost_changes_total',
];
const ELSEWHERE = [
  ...HISTORY_METRICS,
  ...[...API_SERVER_METRICS, ...PACKET_METRICS],
  ...[...CONNTRACK_METRICS, ...POWERLESS_METRICS],
  ...[...XDP_METRICS, ...PEER_METRICS],
  ...[...STALE_POD_METRICS, ...NODE_METRICS],
  ...SHADOW_METRICS,
];
export const MANIFEST_METRICS = (Object.keys(METRICS) as MetricName[]).filter(
  (name) => !ELSEWHERE.includes(name),
);

export class Scrapes {
  readonly #sandbox: Sandbox;
  readonly #seen = new Map<string, Set<string>>();

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  /** Scrapes and keeps one page. */
  async take(): Promise<string> {
    const { body } = await getInSandbox(this.#sandbox, 10249, '/metrics');
    for (const name of Object.keys(METRICS)) {
      const lines = seriesOf(body, name);
      this.#seen.set(name, (this.#seen.get(name) ?? new Set()).add(lines.join('\n')));
    }
    return body;
  }

  /** Value of one series, written as on the page, e.g. `fairlead_listening{server="healthz"}`. */
  async value(series: string): Promise<number | undefined> {
    const line = (await this.take()).split('\n').find((text) => text.startsWith(`${series} `));
    return line === undefined ? undefined : Number(line.slice(series.length + 1));
  }

  /** The metrics that were the same on every page; constant ones only if they never appeared. */
  unmoved(names: readonly MetricName[]): string[] {
    return names.filter((name) => {
      const pages = this.#seen.get(name) ?? new Set();
      const isConstant = name.endsWith('_info') || name === 'fairlead_map_max_entries';
      return isConstant ? [...pages].every((lines) => lines === '') : pages.size < 2;
    });
  }
}

const seriesOf = (page: string, name: string): string[] =>
  page.split('\n').filter((line) => new RegExp(`^${name}(_bucket|_sum|_count)?[ {]`).test(line));
