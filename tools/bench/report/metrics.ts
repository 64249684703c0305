// SPDX-License-Identifier: Apache-2.0
// What is measured: the rows of the tables and the plots, with their units.

export interface Metric {
  readonly label: string;
  readonly unit: string;
  readonly better: 'higher' | 'lower';
  /** How it is measured, in one sentence. */
  readonly meaning: string;
}

const PER_CORE = 'for each second of CPU time of client, kernel and server together';

export const METRICS = {
  connections: {
    label: 'New connections',
    unit: 'connections per CPU second',
    better: 'higher',
    meaning: `A pod connects to a ClusterIP, sends 128 bytes, receives 1 KiB and closes, over and over; counted ${PER_CORE}.`,
  },
  latencyP50: {
    label: 'Request latency, p50',
    unit: 'µs',
    better: 'lower',
    meaning:
      'From connect() to the last byte of the answer, wall-clock time, of the same requests.',
  },
  latencyP99: {
    label: 'Request latency, p99',
    unit: 'µs',
    better: 'lower',
    meaning: 'The same: 1 % of the requests take longer.',
  },
  latencyP999: {
    label: 'Request latency, p99.9',
    unit: 'µs',
    better: 'lower',
    meaning:
      'The same: 0.1 % of the requests take longer; other work of the machine shows here first.',
  },
  requestCpu: {
    label: 'CPU of a million requests',
    unit: 'CPU seconds',
    better: 'lower',
    meaning:
      'Requests of 128 bytes with answers of 1 KiB over one open connection; CPU time of client, kernel and server.',
  },
  bulk: {
    label: 'Bulk throughput',
    unit: 'Gbit per CPU second',
    better: 'higher',
    meaning: `One TCP connection to a ClusterIP, as much as goes through; counted ${PER_CORE}.`,
  },
  udp: {
    label: 'UDP requests',
    unit: 'requests per CPU second',
    better: 'higher',
    meaning: `64 bytes to a ClusterIP from 64 sockets, each answered; counted ${PER_CORE}.`,
  },
  nodePortConnections: {
    label: 'NodePort from outside: new connections',
    unit: 'connections per CPU second',
    better: 'higher',
    meaning:
      'As new connections, from a client outside the cluster to a NodePort, with the endpoint on another node.',
  },
  nodePortUdp: {
    label: 'NodePort from outside: UDP requests',
    unit: 'requests per CPU second',
    better: 'higher',
    meaning:
      'As UDP requests, from a client outside the cluster to a NodePort, with the endpoint on another node.',
  },
  start: {
    label: 'Start',
    unit: 's',
    better: 'lower',
    meaning: 'From exec, with nothing programmed, until the Service that was created last answers.',
  },
  startCpu: {
    label: 'CPU of a start',
    unit: 'CPU seconds',
    better: 'lower',
    meaning: 'CPU time of the proxy and of all programs that it runs, until then.',
  },
  change: {
    label: 'One change',
    unit: 'ms',
    better: 'lower',
    meaning:
      'An endpoint is replaced while nothing else changes: until a new connection reaches the new one (median of the turn).',
  },
  changeCpu: {
    label: 'CPU of one change',
    unit: 'CPU ms',
    better: 'lower',
    meaning: 'CPU time of the proxy and of all programs that it runs, for each of these changes.',
  },
  churn: {
    label: 'Churn: until the last change shows',
    unit: 'ms',
    better: 'lower',
    meaning:
      'Endpoints of other Services change 50 times a second; then one endpoint is replaced, until a new connection reaches the new one.',
  },
  churnCpu: {
    label: 'Churn: CPU of 1,000 changes',
    unit: 'CPU seconds',
    better: 'lower',
    meaning: 'CPU time of the proxy and of all programs that it runs, during these changes.',
  },
  memory: {
    label: 'Memory',
    unit: 'MiB',
    better: 'lower',
    meaning:
      'Resident memory of the proxy after start and changes, without what the kernel keeps for it (maps, rules).',
  },
  memoryPeak: {
    label: 'Memory, peak',
    unit: 'MiB',
    better: 'lower',
    meaning: 'The largest resident memory of the proxy until then.',
  },
  rollCpu: {
    label: 'Roll: CPU of one change',
    unit: 'CPU ms',
    better: 'lower',
    meaning:
      'CPU time of the proxy and of all programs that it runs, for each slice whose endpoints are all replaced.',
  },
  rollLast: {
    label: 'Roll: until the last change shows',
    unit: 'ms',
    better: 'lower',
    meaning: 'From the last slice until no new connection reaches an endpoint that is gone.',
  },
} as const satisfies Readonly<Record<string, Metric>>;

export type MetricName = keyof typeof METRICS;

export const METRIC_NAMES = Object.keys(METRICS) as readonly MetricName[];
