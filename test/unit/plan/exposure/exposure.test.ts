// SPDX-License-Identifier: Apache-2.0
// What of a Service a node has, as the Node comes, changes its labels and goes; and what views say of the rest.
import { describe, expect, test } from 'vitest';
import { explain } from '../../../../src/plan/explain/explain.ts';
import { parsePacket } from '../../../../src/plan/explain/packet.ts';
import { createPlanner, type TellingPlanner } from '../../../support/plan/planner.ts';
import { node, ready, SETTINGS, service, slice } from '../support.ts';

const SPEC = {
  type: 'LoadBalancer',
  ports: [{ name: 'main', protocol: 'TCP', port: 80, nodePort: 30_080 }],
  externalIPs: ['203.0.113.20'],
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: 32_000,
};
const STATUS = { loadBalancer: { ingress: [{ ip: '203.0.113.10' }] } };

const web = (annotations: object) =>
  service('web', 10, SPEC, {
    metadata: { annotations, creationTimestamp: '2026-01-01T00:00:00Z' },
    status: STATUS,
  });
const labelled = (labels: object) => node('n1', '192.0.2.11', { metadata: { labels } });

function plannerWith(annotations: object): TellingPlanner {
  const planner = createPlanner(SETTINGS);
  const endpoints = slice('web', [ready('10.1.1.5', 'n1')], {
    ports: [{ name: 'main', protocol: 'TCP', port: 8080 }],
  });
  planner.apply([web(annotations), endpoints]);
  return planner;
}

const planOf = (planner: TellingPlanner) => planner.current().services.get('default/web');
const kindsOf = (planner: TellingPlanner) =>
  planOf(planner)?.ports[0]?.frontends.map(({ kind }) => kind) ?? [];
const ALL = ['ClusterIP', 'ExternalIP', 'LoadBalancer', 'NodePort'];

describe('exposure by node', () => {
  test('follows the labels of the Node; one that is not known exposes nothing, whatever the selector', () => {
    const planner = plannerWith({ 'fairlead.io/expose-on-nodes': '!spare' });
    expect(kindsOf(planner)).toEqual(['ClusterIP']);
    expect(planOf(planner)?.healthCheck?.localEndpoints).toEqual({ IPv4: 0, IPv6: 0 });
    const changed = planner.apply([labelled({})]);
    expect(changed.changed).toEqual(['default/web']);
    expect(kindsOf(planner)).toEqual(ALL);
    expect(planOf(planner)?.healthCheck?.localEndpoints).toEqual({ IPv4: 1, IPv6: 0 });
    planner.apply([labelled({ spare: 'yes' })]);
    expect(kindsOf(planner)).toEqual(['ClusterIP']);
    planner.apply([labelled({})]);
    planner.apply([{ type: 'remove', ref: labelled({}).ref }]);
    expect(kindsOf(planner)).toEqual(['ClusterIP']);
  });

  test('what a node begins to expose belongs to the Service, what it ceases to expose to the next one', () => {
    const planner = plannerWith({ 'fairlead.io/expose-on-nodes': 'role=edge' });
    const younger = service(
      'younger',
      20,
      { externalIPs: ['203.0.113.10'] },
      { metadata: { creationTimestamp: '2026-01-02T00:00:00Z' } },
    );
    const fieldsRejected = () => planner.current().rejections.map(({ field }) => field);
    planner.apply([labelled({ role: 'edge' })]);
    planner.apply([younger]);
    expect(fieldsRejected()).toEqual(['spec.externalIPs[0]']);
    planner.apply([labelled({})]);
    expect(fieldsRejected()).toEqual([]);
    planner.apply([labelled({ role: 'edge' })]);
    expect(fieldsRejected()).toEqual(['spec.externalIPs[0]']);
  });

  test('a label that no selector names changes no Service', () => {
    const planner = plannerWith({ 'fairlead.io/expose-on-nodes': 'role=edge' });
    planner.apply([labelled({ role: 'edge' })]);
    expect(planner.apply([labelled({ role: 'edge', other: 'x' })]).changed).toEqual([]);
  });
});

test('a later version with a value that cannot be read leaves the last good one as it was', () => {
  const good = { 'fairlead.io/source-ranges': '198.51.100.0/24', 'fairlead.io/expose': 'NodePort' };
  const planner = plannerWith(good);
  const before = planOf(planner);
  expect(before?.ports[0]?.sources).toEqual({ policy: 'allow', ranges: ['198.51.100.0/24'] });
  for (const bad of [
    { 'fairlead.io/source-ranges': '198.51.100.0/24 192.0.2.0/24' },
    { 'fairlead.io/source-ranges-policy': 'denied' },
    { 'fairlead.io/expose': 'NodePort ClusterIP' },
    { 'fairlead.io/expose-on-nodes': 'role in (' },
  ]) {
    planner.apply([web({ ...good, ...bad })]);
    expect(planOf(planner)).toBe(before);
    expect(planner.current().rejections).toHaveLength(1);
  }
});

describe('exposure by kind', () => {
  test('a ClusterIP that is not exposed refuses every port, and its set is empty', () => {
    const planner = plannerWith({ 'fairlead.io/expose': 'LoadBalancer' });
    const [port] = planOf(planner)?.ports ?? [];
    expect(kindsOf(planner)).toEqual(['LoadBalancer']);
    expect(port?.refusesOtherPortsOf).toBe('10.96.0.10');
    expect(planOf(planner)?.exposure).toEqual({
      kinds: ['LoadBalancer'],
      isHere: true,
      withheld: ['10.96.0.10:80/TCP', '203.0.113.20:80/TCP', '*:30080/TCP IPv4'],
    });
  });

  test('sets that no frontend uses are empty', () => {
    const planner = plannerWith({ 'fairlead.io/expose': 'none' });
    const [port] = planOf(planner)?.ports ?? [];
    expect([port?.cluster.length, port?.local.length]).toEqual([0, 0]);
    expect(port?.serving.length).toBe(1);
  });
});

describe('explain says why a frontend is not there', () => {
  const reasonOf = (planner: TellingPlanner, to: string): string => {
    const parsed = parsePacket('198.51.100.9', to, undefined);
    if (!parsed.ok) throw new Error(parsed.reason);
    const { steps } = explain(planner.current(), parsed.packet);
    return steps.find(({ rule }) => rule === 'frontend')?.reason ?? '';
  };

  test.each<[annotations: object, to: string, reason: string]>([
    [
      { 'fairlead.io/expose': 'LoadBalancer' },
      '192.0.2.11:30080/tcp',
      '*:30080/TCP IPv4 of default/web is not exposed: fairlead.io/expose names LoadBalancer',
    ],
    [
      { 'fairlead.io/expose': 'LoadBalancer' },
      '10.96.0.10:80/tcp',
      '10.96.0.10 is the ClusterIP of default/web, which does not expose it (fairlead.io/expose)',
    ],
    [
      { 'fairlead.io/expose-on-nodes': 'role=edge' },
      '203.0.113.10:80/tcp',
      '203.0.113.10:80/TCP of default/web is not exposed: fairlead.io/expose-on-nodes means nodes with role=edge, and this node has role=worker',
    ],
    [
      { 'fairlead.io/expose-on-nodes': 'role in (' },
      '203.0.113.20:80/tcp',
      '203.0.113.20:80/TCP of default/web is not exposed: fairlead.io/expose-on-nodes means no node, as its selector cannot be read, and this node has role=worker',
    ],
  ])('%j, %s', (annotations, to, reason) => {
    const planner = plannerWith(annotations);
    planner.apply([labelled({ role: 'worker' })]);
    expect(reasonOf(planner, to)).toBe(reason);
  });
});
