// SPDX-License-Identifier: Apache-2.0
// What must hold for every history, whatever the objects are.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSame } from '../../../src/lib/json.ts';
import type { ObjectChange, ObjectRef, Rejection } from '../../../src/model/types.ts';
import { frontendKey, nodePortKey } from '../../../src/plan/decide/frontends.ts';
import type { IncumbentOf } from '../../../src/plan/decide/ownership.ts';
import type { Plan, PlanSettings, ServicePortPlan } from '../../../src/plan/types.ts';
import { buildAll, type NamedObject } from '../../support/plan/build-all.ts';
import { createPlanner } from '../../support/plan/planner.ts';
import { atNight, repeatable } from '../../support/random.ts';
import { change, history, settings } from './histories.ts';
import { junk } from './junk.ts';
import { ready, SETTINGS, service, slice } from './support.ts';

const RUNS = { numRuns: atNight(250, 5_000) };
const ARBITRARY_OBJECTS = atNight(20_000, 1_000_000);

const keyOf = ({ ref }: ObjectChange): string => refKey(ref);

/** The objects that are left after a history. */
function objectsAfter(changes: readonly ObjectChange[]): readonly NamedObject[] {
  const objects = new Map<string, NamedObject>();
  for (const one of changes) {
    if (one.type === 'put') objects.set(keyOf(one), one);
    else objects.delete(keyOf(one));
  }
  return [...objects.values()];
}

const portsOf = (plan: Plan): readonly ServicePortPlan[] =>
  [...plan.services.values()].flatMap(({ ports }) => ports);

/** The versions that count, by a planner that is told one change at a time, and what was refused of them. */
function countingVersions(chosen: PlanSettings) {
  const judge = createPlanner(chosen);
  const objects = new Map<string, NamedObject>();
  const refused = new Set<string>();
  return (batch: readonly ObjectChange[]) => {
    for (const one of batch) {
      const key = keyOf(one);
      const { rejections } = judge.apply([one]).plan;
      refused.delete(key);
      if (one.type === 'remove') objects.delete(key);
      else if (rejections.some((found) => isKept(found) && refKey(found.object) === key))
        refused.add(key);
      else objects.set(key, one);
    }
    return { objects: [...objects.values()], refused };
  };
}

const isKept = ({ reason }: Rejection): boolean => reason.includes('the last good version');

const refKey = ({ kind, namespace, name }: ObjectRef): string => `${kind} ${namespace}/${name}`;

/** Who serves what in a plan, by the keys of frontends. */
function incumbentsOf({ services }: Plan): IncumbentOf {
  const owners = new Map<string, string>();
  for (const [key, { ports, healthCheck }] of services) {
    for (const { family, protocol, frontends } of ports) {
      for (const { address, port } of frontends) {
        const isNodePort = address === undefined;
        owners.set(
          isNodePort ? nodePortKey(port, protocol, family) : frontendKey(address, port, protocol),
          key,
        );
      }
    }
    for (const family of healthCheck?.families ?? [])
      owners.set(nodePortKey(healthCheck?.port ?? 0, 'TCP', family), key);
  }
  return (frontend) => owners.get(frontend);
}

const withoutRejectionsOf = (refused: ReadonlySet<string>, plan: Plan): Plan => ({
  ...plan,
  rejections: plan.rejections.filter(({ object }) => !refused.has(refKey(object))),
});

describe('laws of the plan', () => {
  it('a plan kept current equals the plan built from what is left', () => {
    fc.assert(
      fc.property(history, settings, (batches, chosen) => {
        const planner = createPlanner(chosen);
        const counting = countingVersions(chosen);
        for (const batch of batches) {
          const incumbentOf = incumbentsOf(planner.current());
          const { plan } = planner.apply(batch);
          const { objects, refused } = counting(batch);
          const built = buildAll(objects, chosen, incumbentOf);
          expect(withoutRejectionsOf(refused, plan)).toEqual(withoutRejectionsOf(refused, built));
        }
      }),
      RUNS,
    );
  });

  it('the order in which a first list arrives means nothing', () => {
    fc.assert(
      fc.property(fc.array(change), settings, fc.nat(), (changes, chosen, seed) => {
        const objects = objectsAfter(changes);
        const turned = objects.toSorted((a, b) => {
          const weight = ({ ref }: NamedObject): number => (ref.name.charCodeAt(1) * seed) % 7;
          return weight(a) - weight(b);
        });
        const plan = buildAll(objects, chosen);
        for (const order of [objects.toReversed(), turned]) {
          const planner = createPlanner(chosen);
          planner.apply(order.map((one) => ({ type: 'put', ...one })));
          expect(planner.current()).toEqual(plan);
        }
      }),
      RUNS,
    );
  });

  it('what did not change keeps its identity, and a change that changes nothing is not one', () => {
    fc.assert(
      fc.property(history, settings, (batches, chosen) => {
        const planner = createPlanner(chosen);
        for (const batch of batches) {
          const before = planner.current().services;
          const asItWas = [...before];
          const delta = planner.apply(batch);
          expect([...before]).toEqual(asItWas);
          for (const [key, service] of delta.plan.services) {
            const earlier = before.get(key);
            if (earlier !== undefined && isSame(earlier, service)) expect(service).toBe(earlier);
          }
          const last = objectsAfter(batch).map((one): ObjectChange => ({ type: 'put', ...one }));
          expect(planner.apply(structuredClone(last))).toMatchObject({ changed: [] });
        }
      }),
      { numRuns: atNight(100, 1_000) },
    );
  });

  it('no frontend belongs to two Services, sets are sorted, and whatever is chosen from is served', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), settings, (changes, chosen) => {
        const taken = new Set<string>();
        for (const port of portsOf(buildAll(objectsAfter(changes), chosen))) {
          for (const frontend of port.frontends) {
            const where = frontend.address ?? `* ${port.family}`;
            const text = `${where} ${frontend.port} ${port.protocol}`;
            expect(taken.has(text)).toBe(false);
            taken.add(text);
          }
          for (const set of [port.cluster, port.local, port.serving]) {
            const keys = set.map((one) => `${one.address} ${String(one.port).padStart(5)}`);
            expect(keys).toEqual([...new Set(keys)].sort());
          }
          for (const one of [...port.cluster, ...port.local])
            expect([...port.serving]).toContainEqual(one);
          expect([...port.local].every(({ isLocal }) => isLocal)).toBe(true);
        }
      }),
      RUNS,
    );
  });

  it('a bad object never changes the plan of another', () => {
    const good = [
      service('good', 1, {
        type: 'NodePort',
        ports: [{ name: 'http', port: 80, nodePort: 30001 }],
      }),
      slice('good', [ready('10.1.1.5'), ready('10.1.2.5', 'n2')]),
    ];
    const planner = createPlanner(SETTINGS);
    const before = planner.apply(good).plan.services.get('default/good');
    const leavesOthersAlone = fc.property(junk, ({ ref, object }) => {
      const { plan, changed } = planner.apply([{ type: 'put', ref, object }]);
      expect(plan.services.get('default/good')).toBe(before);
      expect(changed.filter((key) => key === 'default/good')).toEqual([]);
      for (const { object: refused } of plan.rejections) expect(refused.name).not.toBe('good');
    });
    fc.assert(leavesOthersAlone, repeatable(atNight(5_000, 100_000)));
  });

  it(`never throws, not for ${ARBITRARY_OBJECTS} arbitrary objects`, () => {
    const planner = createPlanner(SETTINGS);
    let refusals = 0;
    const isTaken = fc.property(junk, ({ ref, object }) => {
      refusals += planner.apply([{ type: 'put', ref, object }]).plan.rejections.length;
    });
    fc.assert(isTaken, repeatable(ARBITRARY_OBJECTS));
    expect(refusals).toBeGreaterThan(ARBITRARY_OBJECTS);
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (object) => {
        for (const kind of ['Service', 'EndpointSlice', 'Node', 'ServiceCIDR'] as const) {
          planner.apply([
            { type: 'put', ref: { kind, namespace: 'default', name: 'junk' }, object },
          ]);
        }
      }),
      { numRuns: atNight(500, 10_000) },
    );
  });

  it('huge lists cost what they weigh', () => {
    const many = Array.from({ length: 200_000 }, (_, index) => index);
    const spec = {
      ports: many.map((port) => ({ name: `p${port}`, port: port % 65_536 })),
      externalIPs: many.map((at) => `203.${at >> 16}.${(at >> 8) & 255}.${at & 255}`).slice(0, 100),
      loadBalancerSourceRanges: many.map(
        (at) => `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}/32`,
      ),
    };
    const planner = createPlanner(SETTINGS);
    planner.apply([service('huge', 1, { ports: spec.ports, clusterIPs: many, ipFamilies: many })]);
    planner.apply([service('huge', 1, { externalIPs: spec.externalIPs })]);
    planner.apply([
      service('huge', 1, { loadBalancerSourceRanges: spec.loadBalancerSourceRanges }),
    ]);
    planner.apply([
      slice(
        'huge',
        many.map((at) => ready(`10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`)),
      ),
    ]);
    expect(planner.current().services.get('default/huge')?.ports[0]?.cluster).toHaveLength(200_000);
  });
});
