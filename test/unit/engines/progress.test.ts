// SPDX-License-Identifier: Apache-2.0
// What of a plan is due: what differs from the last one, and in a retry what failed.
import { expect, test } from 'vitest';
import type { Changed, SyncReport } from '../../../src/engines/dataplane.ts';
import { Progress } from '../../../src/engines/router/progress.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { backend, clusterIp, planOf, servicePort } from './bpf/plans.ts';

const servicesOf = (...names: readonly string[]): Plan['services'] =>
  planOf(...names.map((name) => servicePort(name, [clusterIp('10.96.0.1')], [backend('10.1.1.1')])))
    .services;

const START: Plan = { ...planOf(), services: servicesOf('a', 'b') };
const withNew = (name: string, plan = START): Plan => ({
  ...plan,
  services: new Map([...plan.services, ...servicesOf(name)]),
});

function started() {
  const progress = new Progress();
  const due: Changed[] = [];
  const sync = (plan: Plan, isRetry = false, failed: readonly string[] = []) =>
    progress.sync(plan, isRetry, async (changed): Promise<SyncReport> => {
      due.push(changed);
      if (failed[0] === 'throws') throw new Error('EIO');
      return reportOf(failed);
    });
  return { progress, due, sync };
}

const reportOf = (failed: readonly string[]): SyncReport => ({
  ...{ applied: 0, elapsedMs: 0 },
  failed: failed.map((service) => ({
    ...{ id: { kind: 'dataplane', dataplane: 'bpf' } as const, text: '', reason: '', service },
    code: 'MAP_FULL',
  })),
});

test('the first time everything, then what differs; what is gone differs', async () => {
  const { due, sync } = started();
  expect(await sync(START)).toMatchObject({ isFull: true, services: ['default/a', 'default/b'] });
  const next = withNew('b');
  const { changes, isFull } = await sync(next);
  const [before, after] = [START, next].map(({ services }) => services.get('default/b'));
  expect([[...changes], isFull]).toEqual([[['default/b', { before, after }]], false]);
  await sync({ ...next, services: servicesOf() });
  await sync({ ...next, services: servicesOf() });
  expect(due).toEqual(['all', ['default/b'], ['default/a', 'default/b'], []]);
});

test('what failed is due in a retry, and a change of it counts once it is programmed', async () => {
  const { due, sync } = started();
  await sync(START);
  const next = withNew('b');
  expect((await sync(next, false, ['default/b'])).changes.size).toBe(0);
  await sync(next);
  const { changes } = await sync(next, true);
  expect(changes.get('default/b')?.before).toBe(START.services.get('default/b'));
  await sync(next, true);
  expect(due.slice(1)).toEqual([['default/b'], [], ['default/b'], []]);
});

test('after an error what differed still does, and a retry is of everything, once', async () => {
  const { due, sync } = started();
  await sync(START);
  const next = withNew('b');
  await expect(sync(next, false, ['throws'])).rejects.toThrow('EIO');
  await sync(next);
  await sync(next, true);
  await sync(next, true);
  expect(due.slice(1)).toEqual([['default/b'], ['default/b'], 'all', []]);
});

test('an audit programs everything, also what failed before it', async () => {
  const { due, progress, sync } = started();
  await sync(START, false, ['default/a']);
  const next = withNew('b');
  const audited = await progress.audit(next, async () => ({ drift: [], report: reportOf([]) }));
  expect([audited.isFull, [...audited.changes.keys()]]).toEqual([true, ['default/a', 'default/b']]);
  await sync(next, true);
  expect(due).toEqual(['all', []]);
});

test('everything is due when something node-wide has changed', async () => {
  const { due, sync } = started();
  await sync(START);
  await sync({ ...START, detector: { IPv4: undefined, IPv6: undefined } });
  expect(due).toEqual(['all', 'all']);
});
