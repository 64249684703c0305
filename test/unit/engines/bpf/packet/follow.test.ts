// SPDX-License-Identifier: Apache-2.0
// What the packet layer is told of a plan: the Services that have changed, or all of them after an error.
import { beforeEach, expect, test } from 'vitest';
import { NO_FEATURES } from '../../../../../src/engines/bpf/features.ts';
import type { BpfParts } from '../../../../../src/engines/bpf/kernel/dataplane.ts';
import type { Dataplane } from '../../../../../src/engines/dataplane.ts';
import type { ServiceKey } from '../../../../../src/plan/types.ts';
import { memoryDataplane, memoryTables } from '../../../../support/dataplane/memory-dataplane.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const plan = planOf(servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.5')]));
const packets: NonNullable<BpfParts['packets']> = {
  follow(_, changed) {
    told.push(typeof changed === 'string' ? changed : [...changed]);
    if (failure !== undefined) throw failure;
  },
  ...{
    begin: () => undefined,
    leaveNew: () => undefined,
    repair: () => undefined,
    audit: () => [],
    devices: () => [],
    servedDevices: () => [],
  },
  ...{ fill: () => [], totals: () => undefined, latestTotals: async () => undefined },
  hadDirectReturn: false,
  cookies: () => ({ sent: 'none', taken: ['none'] }),
  features: NO_FEATURES,
};

let told: (string | readonly ServiceKey[])[];
let failure: Error | undefined;
let dataplane: Dataplane;

beforeEach(() => {
  told = [];
  failure = undefined;
  dataplane = memoryDataplane(memoryTables(), { packets });
});

test('the Services of a sync, whatever they are given as', async () => {
  await dataplane.sync(plan, 'all', []);
  const { applied } = await dataplane.sync(plan, ['default/web'], []);
  expect(told).toEqual(['all', ['default/web']]);
  expect(applied).toBe(0);
});

test('all of them after a sync that an error has ended, even if an audit comes first', async () => {
  await dataplane.sync(plan, 'all', []);
  failure = new Error('EBUSY');
  await expect(dataplane.sync(plan, ['default/web'], [])).rejects.toThrow('EBUSY');
  failure = undefined;
  expect(await dataplane.audit(plan, [])).toMatchObject({ drift: [], report: { failed: [] } });
  await dataplane.sync(plan, [], []);
  await dataplane.sync(plan, [], []);
  expect(told).toEqual(['all', ['default/web'], 'all', []]);
});
