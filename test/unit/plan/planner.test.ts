// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import type { ObjectChange } from '../../../src/model/types.ts';
import type { ServicePlan } from '../../../src/plan/types.ts';
import { remove } from '../../support/objects.ts';
import { createPlanner, type TellingPlanner } from '../../support/plan/planner.ts';
import { node, ready, SETTINGS, service, slice } from './support.ts';

function planner(...changes: readonly ObjectChange[]): TellingPlanner {
  const made = createPlanner(SETTINGS);
  made.apply(changes);
  return made;
}

const planOf = (from: TellingPlanner, name: string): ServicePlan | undefined =>
  from.current().services.get(`default/${name}`);

describe('createPlanner', () => {
  it('rebuilds the Service of a slice and leaves every other object as it was', () => {
    const subject = planner(
      service('a', 1),
      service('b', 2),
      slice('a', [ready('10.1.1.5')]),
      slice('b', [ready('10.1.1.6')]),
    );
    const a = planOf(subject, 'a');
    const b = planOf(subject, 'b');
    const delta = subject.apply([slice('a', [ready('10.1.1.7')])]);
    expect(delta.changed).toEqual(['default/a']);
    expect(delta.previous.get('default/a')).toBe(a);
    expect(planOf(subject, 'a')?.ports[0]?.cluster.map(({ address }) => address)[0]).toBe(
      '10.1.1.7',
    );
    expect(planOf(subject, 'b')).toBe(b);
  });

  it('says nothing changed when an object comes again as it was', () => {
    const changes = [service('a', 1), slice('a', [ready('10.1.1.5')]), node('n1', '192.0.2.11')];
    const subject = planner(...changes);
    const before = subject.current().services;
    const delta = subject.apply(structuredClone(changes));
    expect(delta).toMatchObject({ changed: [] });
    expect(delta.plan.services).toBe(before);
  });

  it('a new zone of this node changes the Services that have hints, and no others', () => {
    const hinted = (address: string, zone: string) => ({
      ...ready(address),
      hints: { forZones: [{ name: zone }] },
    });
    const inZone = (zone: string) =>
      node('n1', '192.0.2.11', { metadata: { labels: { 'topology.kubernetes.io/zone': zone } } });
    const subject = planner(
      inZone('a'),
      service('a', 1),
      service('b', 2),
      slice('a', [hinted('10.1.1.5', 'a'), hinted('10.1.1.6', 'b')]),
      slice('b', [ready('10.1.1.7')]),
    );
    const b = planOf(subject, 'b');
    const delta = subject.apply([inZone('b')]);
    expect(delta).toMatchObject({ changed: ['default/a'] });
    expect(planOf(subject, 'a')?.ports[0]).toMatchObject({ topology: 'same-zone' });
    expect(planOf(subject, 'a')?.ports[0]?.cluster.map(({ address }) => address)).toEqual([
      '10.1.1.6',
    ]);
    expect(planOf(subject, 'b')).toBe(b);
  });

  it('a Service that goes is reported, with what it was', () => {
    const subject = planner(service('a', 1));
    const before = planOf(subject, 'a');
    const delta = subject.apply([remove(service('a', 1))]);
    expect(delta.changed).toEqual(['default/a']);
    expect(delta.previous.get('default/a')).toBe(before);
    expect(delta.plan.services.size).toBe(0);
    expect(subject.apply([remove(service('a', 1))]).changed).toEqual([]);
  });

  it('several changes of one object in one batch count as the last', () => {
    const subject = planner();
    const delta = subject.apply([service('a', 1), remove(service('a', 1)), service('a', 3)]);
    expect(delta.changed).toEqual(['default/a']);
    expect(planOf(subject, 'a')?.ports[0]?.frontends[0]?.address).toBe('10.96.0.3');
  });

  it('does not know other kinds, and does not mind them', () => {
    const strange = { type: 'put', ref: { kind: 'Pod', namespace: '', name: 'x' }, object: {} };
    const { plan, changed } = planner().apply([strange as unknown as ObjectChange]);
    expect(changed).toEqual([]);
    expect(plan.rejections).toEqual([]);
  });

  it('rejections come and go with their objects, in an order of their own', () => {
    const bad = (name: string) => service(name, 1, { ports: [{ port: 0 }] });
    const subject = planner(bad('b'), bad('a'), slice('a', [{ addresses: ['x'] }]));
    const said = () =>
      subject.current().rejections.map(({ object, field }) => [object.name, field]);
    expect(said()).toEqual([
      ['a-1', 'endpoints[0].addresses[0]'],
      ['a', 'spec.ports[0].port'],
      ['b', 'spec.ports[0].port'],
    ]);
    subject.apply([service('a', 1), remove(bad('b'))]);
    expect(said()).toEqual([['a-1', 'endpoints[0].addresses[0]']]);
  });
});

describe('one frontend, several Services', () => {
  const aged = (name: string, number: number, day: string) =>
    service(name, number, {}, { metadata: { creationTimestamp: `2026-01-${day}T00:00:00Z` } });
  const owner = (from: TellingPlanner): readonly string[] =>
    [...from.current().services.values()]
      .filter(({ ports }) => ports[0]?.frontends.length === 1)
      .map(({ name }) => name);

  it('the oldest has it; when it goes the next oldest takes over, and only losers are rejected', () => {
    const all = [aged('x', 1, '03'), aged('y', 1, '01'), aged('z', 1, '02')];
    const subject = planner(...all);
    expect(owner(subject)).toEqual(['y']);
    expect(subject.current().rejections.map(({ object }) => object.name)).toEqual(['x', 'z']);
    expect(subject.current().rejections[0]).toMatchObject({
      field: 'spec.clusterIP',
      reason: expect.stringContaining('default/y'),
    });
    const delta = subject.apply([remove(all[1]!)]);
    expect(delta.changed).toEqual(['default/y', 'default/z']);
    expect(owner(subject)).toEqual(['z']);
    expect(subject.current().rejections[0]?.reason).toContain('default/z');
    subject.apply([remove(all[2]!)]);
    expect(owner(subject)).toEqual(['x']);
    expect(subject.current().rejections).toEqual([]);
  });

  it('an older one that comes later takes it over', () => {
    const subject = planner(aged('x', 1, '03'));
    expect(subject.apply([aged('y', 1, '01')]).changed).toEqual(['default/x', 'default/y']);
    expect(owner(subject)).toEqual(['y']);
    subject.apply([aged('y', 1, '09')]);
    expect(owner(subject)).toEqual(['x']);
  });

  it('without a time, or with the same, the name decides; a time beats none', () => {
    expect(owner(planner(service('b', 1), service('a', 1)))).toEqual(['a']);
    expect(owner(planner(service('a', 1), aged('b', 1, '01')))).toEqual(['b']);
  });

  it('a health check port can be lost to a NodePort', () => {
    const balancer = service('b', 2, {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
    });
    const taker = service('a', 1, {
      type: 'NodePort',
      ports: [{ name: 'http', port: 80, nodePort: 32000 }],
    });
    const subject = planner(balancer, taker);
    expect(planOf(subject, 'b')?.healthCheck).toBeUndefined();
    expect(subject.current().rejections.map(({ field }) => field)).toEqual([
      'spec.healthCheckNodePort',
    ]);
    subject.apply([remove(taker)]);
    expect(planOf(subject, 'b')?.healthCheck?.port).toBe(32000);
  });

  it('ten thousand Services with one address are resolved in time', () => {
    const many = Array.from({ length: 10_000 }, (_, index) => aged(`s${10_000 - index}`, 1, '01'));
    const subject = createPlanner(SETTINGS);
    subject.apply(many);
    expect(owner(subject)).toEqual(['s1']);
  });
});
