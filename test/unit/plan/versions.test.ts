// SPDX-License-Identifier: Apache-2.0
// A version with a bad field leaves the one before it in force.
import { describe, expect, test } from 'vitest';
import type { ObjectChange } from '../../../src/model/types.ts';
import type { ServicePlan } from '../../../src/plan/types.ts';
import { createPlanner } from '../../support/plan/planner.ts';
import { node, ready, SETTINGS, service, slice } from './support.ts';

const NOW_MS = Date.parse('2026-11-27T15:00:00Z');
const LAST = '; the last good version of before 2026-11-27T15:00:00Z keeps serving';

const http = (port: unknown, more: object = {}) => ({ ports: [{ name: 'http', port }], ...more });

function started(...changes: readonly ObjectChange[]) {
  let nowMs = NOW_MS - 1_000;
  const planner = createPlanner(SETTINGS, { nowMs: () => nowMs });
  planner.apply([...changes]);
  nowMs = NOW_MS;
  return {
    planner,
    web: (): ServicePlan | undefined => planner.current().services.get('default/web'),
    reasons: () => planner.current().rejections.map(({ field, reason }) => `${field}: ${reason}`),
    later: () => {
      nowMs += 60_000;
    },
  };
}

const frontendsOf = (plan: ServicePlan | undefined): readonly string[] =>
  (plan?.ports ?? []).flatMap(({ frontends }) =>
    frontends.map(({ address, port }) => `${address ?? '*'}:${port}`),
  );

describe('the last good version', () => {
  test.each([
    ['port', http('8O'), 'spec.ports[0].port'],
    ['type', http(80, { type: 'Foo' }), 'spec.type'],
    ['clusterIP', http(80, { clusterIP: '10.0.0.999' }), 'spec.clusterIP'],
    ['policy', http(80, { internalTrafficPolicy: 'Locl' }), 'spec.internalTrafficPolicy'],
    ['ports', { ports: 'http' }, 'spec.ports'],
    ['no ports', { ports: [] }, 'spec.ports'],
  ])('of a Service with a bad %s serves on, the rejection says so', (_, spec, field) => {
    const { planner, web, reasons } = started(service('web', 1, http(80)));
    const before = web();
    expect(frontendsOf(before)).toEqual(['10.96.0.1:80']);
    expect(planner.apply([service('web', 1, spec)]).changed).toEqual([]);
    expect(web()).toBe(before);
    expect(reasons()).toHaveLength(1);
    expect(reasons()[0]).toContain(`${field}: `);
    expect(reasons()[0]?.endsWith(LAST)).toBe(true);
  });

  test('says since when, is replaced by a good one, and goes with its object', () => {
    const { planner, web, reasons, later } = started(service('web', 1, http(80)));
    planner.apply([service('web', 1, http('8O'))]);
    later();
    planner.apply([service('web', 1, http('8OO'))]);
    expect(reasons()).toEqual([
      `spec.ports[0].port: must be a port number from 1 to 65535, not "8OO"${LAST}`,
    ]);
    planner.apply([service('web', 1, http(81))]);
    expect(frontendsOf(web())).toEqual(['10.96.0.1:81']);
    expect(reasons()).toEqual([]);
    planner.apply([service('web', 1, http('8O'))]);
    planner.apply([{ type: 'remove', ref: service('web', 1).ref }]);
    expect(web()).toBeUndefined();
    expect(reasons()).toEqual([]);
  });

  test('what takes the place of a bad field is told of the version that counts, and of no other', () => {
    const metadata = (text: string) => ({
      annotations: { 'fairlead.io/source-ranges-policy': text },
    });
    const bad = (name: string, text: string): ObjectChange =>
      service(name, 1, http(80), { metadata: metadata(text) });
    const { planner, reasons } = started(service('web', 1, http(80)));
    const field = 'metadata.annotations["fairlead.io/source-ranges-policy"]: must be allow or deny';
    planner.apply([bad('web', 'denied')]);
    expect(reasons()).toEqual([`${field}, not "denied"${LAST}`]);
    planner.apply([{ type: 'remove', ref: service('web', 1).ref }, bad('web', 'denied')]);
    expect(reasons()).toEqual([`${field}, not "denied"; its ranges admit nobody`]);
  });

  test('a first version with a bad field serves without it, and so do later ones with the same', () => {
    const bad = { externalIPs: ['203.0.113.1', 'bad'] };
    const { planner, web, reasons } = started(service('web', 1, http(80, bad)));
    expect(frontendsOf(web())).toEqual(['10.96.0.1:80', '203.0.113.1:80']);
    const moved = { externalIPs: ['bad', '203.0.113.1'] };
    planner.apply([service('web', 1, http(81, moved))]);
    expect(frontendsOf(web())).toEqual(['10.96.0.1:81', '203.0.113.1:81']);
    expect(reasons().some((text) => text.includes('last good'))).toBe(false);
  });

  const misspelt = (port: number, spec: object, ...unknownFields: string[]): ObjectChange => ({
    ...service('web', 1, { ...http(port), ...spec }),
    unknownFields,
  });

  test.each([
    ['clusterip', { clusterIP: undefined, clusterIPs: undefined }],
    ['loadBalancerSourceRange', { loadBalancerSourceRanges: undefined }],
  ])('of a Service serves on where a later one has the unknown field %s', (field, spec) => {
    const ranges = { type: 'LoadBalancer', loadBalancerSourceRanges: ['192.0.2.0/24'] };
    const { planner, web, reasons } = started(service('web', 1, http(80, ranges)));
    const before = web();
    planner.apply([misspelt(81, { ...ranges, ...spec }, `spec.${field}`)]);
    expect(web()).toBe(before);
    expect(planner.current().rejections).toEqual([
      expect.not.objectContaining({ isWarning: true }),
    ]);
    expect(reasons()).toEqual([`spec.${field}: unknown field${LAST}`]);
  });

  test('of an EndpointSlice serves on where a later one has an unknown field', () => {
    const { planner, web } = started(
      service('web', 1, http(80)),
      slice('web', [ready('10.1.1.5')]),
    );
    const before = web();
    planner.apply([{ ...slice('web', []), unknownFields: ['endpoint'] }]);
    expect(web()).toBe(before);
  });

  test('an unknown field of a first version is a warning, and holds up no later one that has it, too', () => {
    const { planner, web, reasons } = started(misspelt(80, {}, 'spec.ports[0].prot'));
    expect(frontendsOf(web())).toEqual(['10.96.0.1:80']);
    expect(planner.current().rejections).toMatchObject([{ isWarning: true }]);
    planner.apply([misspelt(81, {}, 'spec.ports[1].prot')]);
    expect(frontendsOf(web())).toEqual(['10.96.0.1:81']);
    expect(reasons()).toEqual(['spec.ports[1].prot: unknown field']);
    planner.apply([misspelt(82, {}, 'spec.ports[1].prot', 'spec.nodeport')]);
    expect(frontendsOf(web())).toEqual(['10.96.0.1:81']);
    planner.apply([service('web', 1, http(83))]);
    expect(frontendsOf(web())).toEqual(['10.96.0.1:83']);
    expect(reasons()).toEqual([]);
  });

  test('an annotation that only chooses how to balance is left out, and the rest of its object counts', () => {
    const { planner, web, reasons } = started(service('web', 1, http(80)));
    const metadata = { annotations: { 'fairlead.io/algorithm': 'fastest' } };
    planner.apply([service('web', 1, http(81), { metadata })]);
    expect(frontendsOf(web())).toEqual(['10.96.0.1:81']);
    expect(reasons()[0]).not.toContain('last good');
  });

  test('of an EndpointSlice: one bad address loses no endpoint', () => {
    const two = [ready('10.1.1.5'), ready('10.1.1.6')];
    const { planner, web, reasons } = started(service('web', 1, http(80)), slice('web', two));
    const before = web();
    expect([...(before?.ports[0]?.cluster ?? [])]).toHaveLength(2);
    planner.apply([slice('web', [ready('10.1.1.5'), ready('10.1.1.l6')])]);
    expect(web()).toBe(before);
    planner.apply([slice('web', two, { addressType: 'IPv5' })]);
    expect(web()).toBe(before);
    expect(reasons()[0]?.endsWith(LAST)).toBe(true);
  });

  test('of a Node: its address stays', () => {
    const { planner } = started(node('n1', '192.0.2.11'));
    planner.apply([node('n1', '192.0.2.x')]);
    const { node: facts, rejections } = planner.current();
    expect(facts.addresses.IPv4).toBe('192.0.2.11');
    expect(rejections[0]?.reason.endsWith(LAST)).toBe(true);
  });
});

test('which changes do not count is told with each batch', () => {
  const told: unknown[] = [];
  const planner = createPlanner(SETTINGS, {
    onJudged: (changes, refused) => told.push([changes, [...refused]]),
  });
  const batches = [
    [service('web', 1, http('8O')), slice('web', [])],
    [service('web', 1, http('8O', { type: 'Foo' })), service('api', 2, http(80))],
    [service('web', 1, http(80))],
    [service('web', 1, http(0))],
    [],
  ];
  for (const batch of batches) planner.apply(batch);
  const refused = [[], [batches[1]?.[0]], [], [batches[3]?.[0]], []];
  expect(told).toEqual(batches.map((batch, index) => [batch, refused[index]]));
});
