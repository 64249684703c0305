// SPDX-License-Identifier: Apache-2.0
// A report to write tables from: fairlead within all goals, kube-proxy without an event loop.
import type { Figures, Report } from '../../../../bench/control/report/figures.ts';

const MIB = 1024 * 1024;

export const figures: Figures = {
  start: { wallSeconds: 1.5, cpuSeconds: 1.25, connections: 320 },
  memory: {
    peakAfterStartBytes: 100 * MIB,
    after10sBytes: 80 * MIB,
    peakAfterChurnBytes: 110 * MIB,
  },
  quiet: { samplesMs: [1, -2, 3], failures: 1 },
  churn: {
    busy: { samplesMs: [4, 5], failures: 2 },
    last: { samplesMs: [6, 9], failures: 4 },
    ...{ changesPerSecond: 99.6, seconds: 20, cpuCores: 0.05, refused: 0 },
  },
  stalls: { loadingMs: 300, startMs: 40, churnMs: 20 },
  cpuMsPerChange: 2.25,
  probePeriodMs: 0.5,
};

const { stalls: _, ...kubeProxy } = figures;

/** With rules of iptables. */
export const ruleFigures: Figures = {
  ...kubeProxy,
  start: { wallSeconds: 3, cpuSeconds: 2, connections: 100 },
  quiet: { samplesMs: [100, 200, 300], failures: 0 },
  cpuMsPerChange: 150,
  syncs: { fullSeconds: 1.25, oneSeconds: 0.075 },
  flushedSeconds: 1.5,
  ruleLines: 44_066,
  toolsAlone: { wallMs: 90, cpuMs: 60 },
};

export const report: Report = {
  date: '2026-01-31',
  commit: 'abc1234',
  hasUncommittedChanges: true,
  machine: { cpu: 'Some CPU', cores: 2, kernel: '6.18.0', node: 'v20.20.0', loadBefore: 0.25 },
  kubernetes: '1.30.1',
  apiServerFlags: ['--one', '--two=2'],
  iptables: 'legacy',
  sizes: [
    { services: 100, endpointsEach: 10, loadSeconds: 1, rounds: [{ fairlead: figures }] },
    {
      ...{ services: 10_000, endpointsEach: 10, loadSeconds: 50 },
      rounds: [{ fairlead: figures, nftables: kubeProxy }],
    },
  ],
};
