// SPDX-License-Identifier: Apache-2.0
// `services` and `backends` of a large cluster do not hold up the agent, and show one plan.
import { expect, test } from 'vitest';
import { BPF } from '../../../src/engines/capabilities.ts';
import { routesOf } from '../../../src/instance/routes.ts';
import type { Plan, ServicePlan } from '../../../src/plan/types.ts';
import { backend, clusterIp, planOf, servicePort } from '../engines/bpf/plans.ts';

const SERVICES = 100;
const planWith = (pod: number): Plan =>
  planOf(
    ...Array.from({ length: SERVICES }, (_, n) =>
      servicePort(`s${n}`, [clusterIp(`10.96.0.${n}`)], [backend(`10.1.${pod}.${n}`)]),
    ),
  );

/** Each Service takes a millisecond to look at; `onLook` gets how many were before. */
function slowly(plan: Plan, onLook: (before: number) => void): Plan {
  let looks = 0;
  const slow = (service: ServicePlan): ServicePlan =>
    Object.defineProperty({ ...service }, 'ports', {
      get: () => {
        onLook(looks++);
        const endMs = performance.now() + 1;
        while (performance.now() < endMs);
        return service.ports;
      },
    });
  return { ...plan, services: new Map([...plan.services].map(([key, one]) => [key, slow(one)])) };
}

const routesFor = (plan: () => Plan) =>
  routesOf({
    ...{ node: 'n1', startedAt: new Date(0) },
    dataplane: {
      dataplanes: [BPF],
      snapshot: async () => ({ frontends: [], backends: [] }),
    } as never,
    agent: { state: () => ({ plan: plan() }) } as never,
    source: {} as never,
    addresses: {} as never,
  });

test.each(['/v1/services', '/v1/backends'])(
  '%s: 100 ms are five turns, of one plan',
  async (path) => {
    let turns = 0;
    const turnsAt = new Set<number>();
    let plan = slowly(planWith(0), (before) => {
      turnsAt.add(turns);
      if (before === 0) setImmediate(change);
    });
    const change = (): void => {
      plan = planWith(1);
    };
    const count = (): void => {
      turns++;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    const rows = await routesFor(() => plan)[path]?.(new URLSearchParams());
    clearImmediate(next);
    expect(turnsAt.size).toBeGreaterThanOrEqual(5);
    const backends = JSON.stringify(rows).match(/10\.1\.\d\./g);
    expect(backends?.length).toBeGreaterThanOrEqual(SERVICES);
    expect(new Set(backends)).toEqual(new Set(['10.1.0.']));
  },
);
