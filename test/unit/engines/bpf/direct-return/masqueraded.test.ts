// SPDX-License-Identifier: Apache-2.0
// The plan on a kernel without direct return.
import { expect, test } from 'vitest';
import { withoutDirectReturn } from '../../../../../src/engines/bpf/direct-return/masqueraded.ts';
import type { Frontend, Plan, ServicePlan, TrafficRule } from '../../../../../src/plan/types.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const RULES = clusterIp('').rules;
const SNAT: TrafficRule = { ...RULES.outside, masquerade: true };
const frontend = (outside: TrafficRule): Frontend => ({
  ...clusterIp('203.0.113.10'),
  kind: 'LoadBalancer',
  rules: { ...RULES, outside },
});

const planWith = (...rules: readonly TrafficRule[]): Plan => ({
  ...planOf(servicePort('web', rules.map(frontend), [backend('10.1.1.1')])),
  wantsDirectReturn: true,
});
const rulesOf = ({ services }: Plan): readonly TrafficRule[] =>
  [...services.values()].flatMap(({ ports }) =>
    ports.flatMap(({ frontends }) => frontends.map(({ rules }) => rules.outside)),
  );

const DIRECT = { ...SNAT, directReturn: true } as const;
const ONLY = (plan: Plan): ServicePlan | undefined => [...plan.services.values()][0];

test('requests to other nodes and to real servers are masqueraded, and nobody asks for more', () => {
  const plan = withoutDirectReturn()(planWith(DIRECT, { ...DIRECT, ipip: true }, SNAT));
  expect(rulesOf(plan)).toEqual([SNAT, SNAT, SNAT]);
  expect('wantsDirectReturn' in plan).toBe(false);
  expect(ONLY(plan)?.ports[0]?.frontends.map(({ rules }) => rules.pod)).toEqual(
    [1, 2, 3].map(() => RULES.pod),
  );
});

test('the same plan and the same Service give the same, and one that asks for nothing is itself', () => {
  const masquerading = withoutDirectReturn();
  const asking = planWith(DIRECT);
  expect(masquerading(asking)).toEqual(masquerading(asking));
  expect(ONLY(masquerading({ ...asking }))).toBe(ONLY(masquerading(asking)));
  const other = planWith(SNAT);
  expect(ONLY(masquerading(other))).toBe(ONLY(other));
});
