// SPDX-License-Identifier: Apache-2.0
// Several dataplanes as one: what each is given, in which order, and how their results are merged.
import { expect, test, vi } from 'vitest';
import { BPF } from '../../../src/engines/capabilities.ts';
import { createRouter } from '../../../src/engines/router/router.ts';
import type { Protocol } from '../../../src/model/types.ts';
import type { ServicePortPlan } from '../../../src/plan/types.ts';
import { memoryDataplane, memoryTables } from '../../support/dataplane/memory-dataplane.ts';
import { clusterIp, planOf, servicePort } from './bpf/plans.ts';
import { fakeDataplane, LAST_RESORT, planLines } from './support.ts';

/** Serves sockets alone, so that with BPF before it each frontend has one dataplane. */
const SOCKETS = { ...LAST_RESORT, serves: { ...LAST_RESORT.serves, outside: undefined } };
const port = (name: string, protocol: Protocol, number = 80): ServicePortPlan => ({
  ...servicePort(name, [clusterIp('10.96.0.10', number)], []),
  ...{ key: `default/${name}:p${number}/${protocol}/IPv4`, portName: `p${number}`, protocol },
});

function twoDataplanes() {
  const journal: string[] = [];
  const bpf = fakeDataplane(BPF, journal);
  const rest = fakeDataplane(SOCKETS, journal);
  const router = createRouter([bpf, rest]);
  const sync = (...ports: readonly ServicePortPlan[]) => router.sync(planOf(...ports), []);
  return { bpf, rest, router, journal, sync };
}

/** The protocol decides who serves it; as the same service port, which a change of capabilities does alike. */
const moving = (ranges: readonly string[] | undefined): ServicePortPlan => {
  const known = port('web', 'TCP');
  return {
    ...known,
    frontends: known.frontends.map((frontend) => ({
      ...frontend,
      ...(ranges && { isFiltered: true as const }),
    })),
  };
};

test('a frontend that moves is added to the new dataplane before it is removed from the old one, in both directions', async () => {
  const { journal, sync } = twoDataplanes();
  await sync(moving(undefined));
  await sync(moving(['192.0.2.0/24']));
  await sync(moving(undefined));
  const both = 'web 10.96.0.10:*, web 10.96.0.10:80/TCP';
  expect(journal).toEqual([
    `bpf: ${both}`,
    'iptables: web 10.96.0.10:80/TCP',
    'bpf: web 10.96.0.10:*',
    `bpf: ${both}`,
    'iptables: ',
  ]);
});

test('if the new dataplane fails, the old one keeps it until the next attempt', async () => {
  const { bpf, rest, router, sync } = twoDataplanes();
  await sync(moving(undefined));
  rest.failure = 'entries';
  const moved = planOf(moving(['192.0.2.0/24']));
  const { report } = await router.sync(moved, []);
  expect(report.failed.map(({ reason, service }) => [reason, service])).toEqual([
    ['iptables', 'default/web'],
  ]);
  expect(bpf.lines()).toContain('web 10.96.0.10:80/TCP');
  rest.failure = 'throws';
  await expect(router.sync(moved, [], true)).rejects.toThrow('iptables is broken');
  expect(bpf.lines()).toContain('web 10.96.0.10:80/TCP');
  rest.failure = 'none';
  await router.sync(moved, [], true);
  expect([bpf.lines(), rest.lines()]).toEqual([['web 10.96.0.10:*'], ['web 10.96.0.10:80/TCP']]);
});

test('what the old one keeps is in every plan that it is given until the new one has it', async () => {
  const { bpf, rest, router, sync } = twoDataplanes();
  await sync(moving(undefined));
  rest.failure = 'entries';
  const moved = planOf(moving(['192.0.2.0/24']));
  await router.sync(moved, []);
  const given = vi.spyOn(bpf, 'sync');
  rest.failure = 'none';
  const more = planOf(port('open', 'TCP', 81)).services;
  const next = { ...moved, services: new Map([...moved.services, ...more]) };
  await router.sync(next, []);
  expect(given.mock.calls.map(([plan]) => planLines(plan))).toEqual([
    expect.arrayContaining(['web 10.96.0.10:80/TCP', 'open 10.96.0.10:81/TCP']),
  ]);
  await router.sync(next, [], true);
  expect(planLines(given.mock.lastCall![0])).not.toContain('web 10.96.0.10:80/TCP');
});

test('an exception in one dataplane does not stop the others, and reaches the caller', async () => {
  const { bpf, rest, sync } = twoDataplanes();
  bpf.failure = 'throws';
  await expect(sync(port('web', 'TCP'), port('telco', 'SCTP'))).rejects.toThrow('bpf is broken');
  expect(rest.lines()).toEqual(['telco 10.96.0.10:80/SCTP']);
});

test('a Service that is deleted or has nothing left to serve is removed', async () => {
  const { bpf, rest, sync } = twoDataplanes();
  await sync(port('web', 'TCP'), port('telco', 'SCTP'));
  await sync(port('telco', 'SCTP'));
  expect([bpf.lines(), rest.lines()]).toEqual([
    ['telco 10.96.0.10:*'],
    ['telco 10.96.0.10:80/SCTP'],
  ]);
  await sync();
  expect([bpf.lines(), rest.lines()]).toEqual([[], []]);
});

test('rules in place of eBPF are written first, and eBPF leaves packets alone before it gets a frontend', async () => {
  const journal: string[] = [];
  const leaveNewPackets = (isLeft: boolean): void => void journal.push(`left: ${isLeft}`);
  const bpf = { ...fakeDataplane(BPF, journal), leaveNewPackets };
  const rules = fakeDataplane(LAST_RESORT, journal);
  const router = createRouter([bpf, rules], { what: 'packets', reason: 'a firewall' });
  rules.failure = 'throws';
  await expect(router.sync(planOf(port('web', 'TCP')), [])).rejects.toThrow();
  expect(journal).toEqual([]);
  rules.failure = 'none';
  await router.sync(planOf(port('web', 'TCP')), []);
  expect(journal.map((line) => line.split(': ')[0])).toEqual(['iptables', 'left', 'bpf']);
});

test('results are merged', async () => {
  const { bpf, rest, router, sync } = twoDataplanes();
  const { report } = await sync(port('web', 'TCP'), port('telco', 'SCTP'));
  expect(report).toEqual({ applied: 3, failed: [], elapsedMs: 1 });
  const { drift } = await router.audit(planOf(port('web', 'TCP')), []);
  expect(drift.map(({ text }) => text)).toEqual(['bpf', 'iptables']);
  expect(router.counters()).toMatchObject({
    tables: [{ name: 'bpf' }, { name: 'iptables' }],
    outcomes: { translated: 2 },
  });
  expect(router.capabilities).toMatchObject({
    dataplane: 'bpf+iptables',
    serves: { pod: { hasSourceRanges: true }, outside: undefined },
  });
  expect(router.installation.hooks.map(({ name }) => name)).toEqual(['bpf', 'iptables']);
  let told = 0;
  router.onRoom(() => {
    told++;
  });
  bpf.tellRoom();
  rest.tellRoom();
  expect(told).toBe(2);
  router.close();
  expect([bpf.isClosed, rest.isClosed]).toEqual([true, true]);
});

test('what one of them finds in an audit that fails in another is reported by the next audit, once', async () => {
  const { rest, router } = twoDataplanes();
  const plan = planOf(port('web', 'TCP'));
  const { audit } = rest;
  rest.audit = () => Promise.reject(new Error('iptables is broken'));
  await expect(router.audit(plan, [])).rejects.toThrow('iptables is broken');
  rest.audit = audit;
  const found = async () => (await router.audit(plan, [])).drift.map(({ text }) => text);
  expect(await found()).toEqual(['bpf', 'bpf', 'iptables']);
  expect(await found()).toEqual(['bpf', 'iptables']);
});

test('bpf alone: SCTP is not programmed, and the other ports of its ClusterIP are refused', async () => {
  const tables = memoryTables();
  const router = createRouter([memoryDataplane(tables)]);
  await router.sync(planOf(port('telco', 'SCTP')), []);
  expect((await router.snapshot()).frontends).toEqual([]);
  const [used] = router.counters().tables;
  expect(used).toMatchObject({ name: 'fl_frontend4', used: 1 });
  await router.sync(planOf(), []);
  expect(router.counters().tables[0]?.used).toBe(0);
});
