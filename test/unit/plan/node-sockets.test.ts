// SPDX-License-Identifier: Apache-2.0
// Frontends at addresses of the node: a process that listens at exactly one gets it, in every plan.
import { expect, test } from 'vitest';
import type { ObjectChange } from '../../../src/model/types.ts';
import { explain } from '../../../src/plan/explain/explain.ts';
import { parsePacket } from '../../../src/plan/explain/packet.ts';
import { frontendsOnNode, type NodeSockets } from '../../../src/plan/node-sockets/frontends.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { buildAll } from '../../support/plan/build-all.ts';
import { createPlanner } from '../../support/plan/planner.ts';
import { ready, SETTINGS, service, slice } from './support.ts';

const DNS_PORTS = [
  { name: 'dns', port: 53, protocol: 'UDP' },
  { name: 'dns-tcp', port: 53, protocol: 'TCP' },
];
const PUTS = [
  service('dns', 10, { ports: DNS_PORTS, externalIPs: ['203.0.113.20'] }),
  service('other', 11),
  slice('dns', [ready('10.1.1.5')], { ports: [{ name: 'dns', port: 53, protocol: 'UDP' }] }),
];

const sockets = (addresses: readonly string[], listeners: readonly string[] = []): NodeSockets => ({
  addresses: new Set(addresses),
  listeners: new Set(listeners),
});

const frontendsOf = (plan: Plan, name = 'dns'): readonly string[] =>
  (plan.services.get(`default/${name}`)?.ports ?? []).flatMap(({ frontends, protocol }) =>
    frontends.map(({ address, port }) => `${address}:${port}/${protocol}`),
  );

const ALL = [
  '10.96.0.10:53/UDP',
  '203.0.113.20:53/UDP',
  '10.96.0.10:53/TCP',
  '203.0.113.20:53/TCP',
];

function planned(has: NodeSockets, puts: readonly ObjectChange[] = PUTS): Plan {
  const planner = createPlanner(SETTINGS);
  planner.nodeHas(has);
  const { plan } = planner.apply(puts);
  const objects = puts.flatMap((put) => (put.type === 'put' ? [put] : []));
  expect(plan).toEqual(buildAll(objects, SETTINGS, undefined, has));
  return plan;
}

test('an address of the node without a listener changes nothing but other ports of its ClusterIP', () => {
  const plan = planned(sockets(['192.0.2.11', '10.96.0.10']));
  expect(frontendsOf(plan)).toEqual(ALL);
  const refusing = (name: string) =>
    plan.services.get(`default/${name}`)?.ports.map((port) => port.refusesOtherPortsOf);
  expect(refusing('dns')).toEqual([undefined, undefined]);
  expect(refusing('other')).toEqual(['10.96.0.11']);
});

test('a listener gets its own protocol and address alone', () => {
  const plan = planned(sockets(['10.96.0.10'], ['10.96.0.10:53/UDP']));
  expect(frontendsOf(plan)).toEqual(ALL.slice(1));
  expect([...frontendsOnNode(plan)].filter(({ isListenedTo }) => isListenedTo)).toMatchObject([
    { service: 'default/dns', key: '10.96.0.10:53/UDP', kind: 'ClusterIP' },
  ]);
});

test('a listener at an address that the node does not have gets nothing', () => {
  expect(frontendsOf(planned(sockets([], ['10.96.0.10:53/UDP'])))).toEqual(ALL);
});

test('a listener that is an endpoint of the Service shares with the others', () => {
  const has = sockets(['203.0.113.20'], ['203.0.113.20:53/UDP']);
  const own = slice('dns', [ready('10.1.1.5'), ready('203.0.113.20')], {
    ports: [{ name: 'dns', port: 53, protocol: 'UDP' }],
  });
  expect(frontendsOf(planned(has, [...PUTS, own]))).toEqual(ALL);
  expect(frontendsOf(planned(has))).not.toContain('203.0.113.20:53/UDP');
});

test('what the node has changes only the Services concerned, and back', () => {
  const planner = createPlanner(SETTINGS);
  planner.apply(PUTS);
  const changed = (has: NodeSockets): readonly string[] => {
    planner.nodeHas(has);
    return planner.apply([]).changed;
  };
  expect(changed(sockets(['192.0.2.11']))).toEqual([]);
  expect(changed(sockets(['192.0.2.11', '10.96.0.10']))).toEqual(['default/dns']);
  expect(changed(sockets(['192.0.2.11', '10.96.0.10'], ['10.96.0.10:53/TCP']))).toEqual([
    'default/dns',
  ]);
  expect(frontendsOf(planner.current())).not.toContain('10.96.0.10:53/TCP');
  expect(changed(sockets(['192.0.2.11']))).toEqual(['default/dns']);
  expect(planner.current()).toEqual(buildAll(PUTS, SETTINGS, undefined, sockets(['192.0.2.11'])));
  expect(planner.current().onNode).toBeUndefined();
});

test.each([
  ['10.96.0.10:53/udp', 'a process of the node listens: it gets what is for Service default/dns'],
  ['10.96.0.10:54/udp', 'no Service has 10.96.0.10:54/UDP'],
])('explain says so of %s', (to, reason) => {
  const plan = planned(sockets(['10.96.0.10'], ['10.96.0.10:53/UDP']));
  const parsed = parsePacket('10.1.1.9', to);
  if (!parsed.ok) throw new Error(parsed.reason);
  const { verdict, steps } = explain(plan, parsed.packet);
  expect(verdict).toBe('none');
  expect(steps.map((step) => step.reason).join()).toContain(reason);
});
