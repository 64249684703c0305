// SPDX-License-Identifier: Apache-2.0
// The traffic that is measured: what is sent, and which metrics its samples give. Pure.
import type { Call, TimedSample } from '../../lab/columns/traffic.ts';
import type { MetricName } from '../report/metrics.ts';

export interface Workload {
  readonly call: Call;
  readonly from: 'inside' | 'outside';
  /** Of a sample: rounds of 2,048 datagrams, connections, requests or MiB, for a fifth of a second or less. */
  readonly amount: number;
  readonly metrics: Readonly<Partial<Record<MetricName, (sample: TimedSample) => number>>>;
}

const NS_PER_SECOND = 1e9;
const perCpuSecond = ({ units, cpuNs }: TimedSample): number => (units * NS_PER_SECOND) / cpuNs;
/** Datagrams are counted both ways. */
const requestsPerCpuSecond = (sample: TimedSample): number => perCpuSecond(sample) / 2;

export const WORKLOADS: readonly Workload[] = [
  {
    ...{ call: 'tcp', from: 'inside', amount: 1_500 },
    metrics: {
      connections: perCpuSecond,
      latencyP50: ({ p50Ns }) => p50Ns / 1e3,
      latencyP99: ({ p99Ns }) => p99Ns / 1e3,
      latencyP999: ({ p999Ns }) => p999Ns / 1e3,
    },
  },
  {
    ...{ call: 'request', from: 'inside', amount: 10_000 },
    metrics: { requestCpu: ({ units, cpuNs }) => (cpuNs / NS_PER_SECOND / units) * 1e6 },
  },
  {
    ...{ call: 'bulk', from: 'inside', amount: 512 },
    metrics: { bulk: (sample) => (perCpuSecond(sample) * 8) / 1e9 },
  },
  { ...{ call: 'udp', from: 'inside', amount: 16 }, metrics: { udp: requestsPerCpuSecond } },
  {
    ...{ call: 'tcp', from: 'outside', amount: 1_500 },
    metrics: { nodePortConnections: perCpuSecond },
  },
  {
    ...{ call: 'udp', from: 'outside', amount: 16 },
    metrics: { nodePortUdp: requestsPerCpuSecond },
  },
];

/** The metrics of one sample; null where nothing arrived. */
export function valuesOfSample(
  { metrics }: Workload,
  sample: TimedSample,
): readonly (readonly [MetricName, number | null])[] {
  const isEmpty = sample.units === 0 || sample.cpuNs === 0;
  return Object.entries(metrics).map(([name, of]) => [
    name as MetricName,
    isEmpty ? null : of(sample),
  ]);
}
