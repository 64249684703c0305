// SPDX-License-Identifier: Apache-2.0
// The comparison in steps is the whole one, and no step is of many destinations.
import { expect, test } from 'vitest';
import { isUnexplained } from '../../../../src/compare/proof.ts';
import { comparedInSteps } from '../../../../src/instance/shadow/comparing.ts';
import { FAMILIES } from '../../../../src/model/types.ts';
import { comparedWith, planOf, programOf, recordedText, sideOf } from '../../compare/recorded.ts';

test.each(['iptables', 'nftables'] as const)('rules of %s', (mode) => {
  const plan = planOf('ranges');
  const text = recordedText('ranges', mode);
  const families = mode === 'nftables' ? FAMILIES : FAMILIES.slice(0, 1);
  const rules = families.map((family) => ({
    ...{ kind: mode, name: mode, family },
    program: programOf(mode, text, family),
  }));
  const steps = comparedInSteps(rules, { plan, plain: plan }, plan.node.localAddresses);
  let count = 0;
  let next = steps.next();
  for (; next.done !== true; next = steps.next()) count += 1;
  const compared = next.value;
  const destinations = compared.map(({ comparison }) => comparison.destinations);
  expect(count).toBeGreaterThan(destinations.reduce((sum, each) => sum + each));
  const whole = families.map((family) =>
    comparedWith(plan, sideOf(mode, text, plan, family), family, plan),
  );
  expect(compared.map(({ comparison }) => comparison)).toEqual(
    whole.map((one) => ({ ...one, differences: one.differences.filter(isUnexplained) })),
  );
  expect([...(compared[0]?.comparison.reasons ?? [])]).not.toEqual([]);
});
