// SPDX-License-Identifier: Apache-2.0
// A kernel setting that cannot be written is a warning of `status`, and no reason to call the node degraded.
import { expect, test } from 'vitest';
import { type SysctlResult, settingProblem } from '../../../../src/instance/preflight/sysctls.ts';
import { routesOf } from '../../../../src/instance/routes.ts';
import { problemText } from '../../../../src/model/problem.ts';
import type { Status } from '../../../../src/observe/status.ts';
import { memoryIptables } from '../../../support/iptables/memory/dataplane.ts';

const FAILED: SysctlResult = {
  ...{ path: 'proc/sys/net/netfilter/nf_conntrack_max', value: 262_144, was: 65_536 },
  ...{ outcome: 'failed', reason: 'not writable: set it on the node' },
};

test('names the setting, both values, and what to do', () => {
  expect(problemText(settingProblem(FAILED))).toBe(
    'net.netfilter.nf_conntrack_max: 65536, not set to 262144: not writable: set it on the node',
  );
});

test('is in the status', () => {
  const { dataplane } = memoryIptables();
  const state = { plan: undefined, isReady: true, syncs: 0, failed: [], driftTotal: 0 };
  const routes = routesOf({
    ...{ node: 'n1', startedAt: new Date(0), warnings: () => [settingProblem(FAILED)] },
    dataplane: {
      ...dataplane,
      counters: () => dataplane.counters(),
      dataplanes: [],
      devices: () => [],
    } as never,
    agent: { state: () => state } as never,
    source: { problems: () => [] } as never,
    addresses: { current: () => [] } as never,
  });
  const status = routes['/v1/status']?.(new URLSearchParams()) as Status | undefined;
  expect(status?.problems).toMatchObject([
    { isWarning: true, reason: expect.stringContaining('262144') },
  ]);
});
