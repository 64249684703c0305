// SPDX-License-Identifier: Apache-2.0
// A report with every kind of cell: differences, noise, too few rounds, a missing value, a skipped column, a roll.
import type {
  BenchReport,
  ColumnName,
  Samples,
  Series,
} from '../../../../../tools/bench/report/types.ts';

const OFFSETS = [-1, 0.4, 0.1, -0.3, 0.9, -0.6, 0.2, 0.7];

/** Eight rounds around a value, the same ones each time, and others for another value. */
const around = (value: number, spread = 0.02): Series => {
  const first = Math.round(value) % OFFSETS.length;
  return OFFSETS.map(
    (_, round) => value * (1 + spread * (OFFSETS[(first + round) % OFFSETS.length] ?? 0)),
  );
};
const three = (value: number): Series => around(value).slice(0, 3);

function samplesAt(services: number): Samples {
  const slope = 1 + services / 10_000;
  const row = (values: Partial<Record<ColumnName, number>>, make = around) =>
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, make(value)]),
    ) as Partial<Record<ColumnName, Series>>;
  return {
    connections: row({
      ...{ none: 14_100, 'fairlead-bpf': 13_600, 'fairlead-iptables': 11_100 / slope },
      'kube-proxy-iptables': 11_050 / slope,
    }),
    latencyP999: {
      ...row({ none: 180, 'fairlead-bpf': 185 }, (value) => around(value, 0.9)),
      ...row({ 'kube-proxy-iptables': 190 * slope }, (value) => around(value, 0.9)),
    },
    start: row(
      {
        ...{ 'fairlead-bpf': 0.7 + services / 9_000, 'fairlead-iptables': 0.9 },
        'kube-proxy-iptables': 0.5 + services / 300,
      },
      three,
    ),
    change: {
      'fairlead-bpf': [2.1, 1.9, 2.4],
      'kube-proxy-iptables': services > 1_000 ? [null, null, 900] : [40, 44, 39],
    },
  };
}

export const SAMPLE: BenchReport = {
  apiVersion: 'fairlead.io/v1',
  kind: 'BenchReport',
  version: '0.1.0',
  date: '2026-01-31',
  machine: { cpu: 'CPU <8>', cores: 8, kernel: '6.18.0', node: 'v20.20.0', loadBefore: 0.2 },
  iptables: 'legacy',
  endpointsEach: 10,
  columns: ['none', 'fairlead-bpf', 'fairlead-iptables', 'kube-proxy-iptables'],
  skipped: { 'kube-proxy-nftables': 'no program nft: install nftables' },
  sizes: [100, 1_000, 10_000].map((services) => ({
    ...{ services, samples: samplesAt(services), loadAfter: 1.1 },
    notes: services === 10_000 ? ['kube-proxy iptables: 2 changes were not seen within 60 s.'] : [],
  })),
  roll: {
    ...{ services: 100, endpoints: 5_000, slices: 50, loadAfter: 1.2, notes: [] },
    samples: { rollCpu: { 'fairlead-bpf': three(4.1), 'kube-proxy-iptables': three(310) } },
  },
};
