// SPDX-License-Identifier: Apache-2.0
// What makes `fairlead status` exit 3, one state at a time.
import { expect, test } from 'vitest';
import { countFrontends, healthOf } from '../../../src/observe/health.ts';
import type { KernelState } from '../../../src/observe/rows.ts';
import type { Status } from '../../../src/observe/status.ts';
import { failedEntry } from '../../support/dataplane/failed-entry.ts';

const NOWHERE = { object: undefined, field: undefined, file: undefined, line: undefined };

interface Case {
  readonly isReady?: boolean;
  readonly problems?: Status['problems'];
  readonly failed?: Status['sync']['failed'];
  readonly frontends?: readonly KernelState[];
  readonly failedDevices?: number;
  readonly refused?: Status['refused'];
}

function health({ isReady = true, problems = [], failed = [], ...more }: Case) {
  const { frontends = ['ok'], failedDevices = 0, refused = [] } = more;
  const sync = { failed } as unknown as Status['sync'];
  const rows = frontends.map((kernelState) => ({ kernelState }));
  const devices = Array.from({ length: failedDevices }, () => ({ isFailed: true }));
  const status = { isReady, problems, sync, refused };
  const withDevices = { ...status, devices: devices as unknown as Status['devices'] };
  return healthOf(withDevices, countFrontends(rows));
}

test('in sync: nothing failed, nothing rejected, every frontend programmed', () => {
  expect(health({})).toEqual({ state: 'in sync', reasons: [] });
});

test('starting: before the initial sync, whatever else is known', () => {
  expect(health({ isReady: false, frontends: [] }).state).toBe('starting');
});

const rejected = {
  ...NOWHERE,
  object: { kind: 'Service', namespace: 'default', name: 'web' } as const,
  reason: 'is 0',
};
test.each<[reason: string, state: Case]>([
  ['1 rejected object or field', { problems: [rejected] }],
  ['1 rejected object or field', { problems: [{ ...NOWHERE, file: 'a.yaml', reason: 'no' }] }],
  ['1 source problem', { problems: [{ ...NOWHERE, reason: 'ECONNREFUSED', kinds: 'all' }] }],
  ['1 layer refused by the kernel', { refused: [{ layer: 'packet layer', reason: 'no' }] }],
  ['2 entries failed to sync', { failed: [failedEntry(), failedEntry()] }],
  ['2 devices without their programs', { failedDevices: 2 }],
  ['1 frontend missing', { frontends: ['ok', 'missing'] }],
  ['2 frontends stale', { frontends: ['stale', 'stale'] }],
  ['1 frontend not in the plan', { frontends: ['extra'] }],
  ['1 frontend not served', { frontends: ['not-served'] }],
])('degraded: %s', (reason, state) => {
  expect(health(state)).toEqual({ state: 'degraded', reasons: [reason] });
});
