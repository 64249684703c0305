// SPDX-License-Identifier: Apache-2.0
// `fairlead compare` of a plan with the rules that kube-proxy has written on a node of the fixture.
import { withoutOwnAnnotations } from '../../../src/compare/plain.ts';
import { FAMILIES, type ObjectChange } from '../../../src/model/types.ts';
import type { createPlanner } from '../../../src/plan/planner.ts';
import type { Plan } from '../../../src/plan/types.ts';
import type { Stage } from '../../support/fixture/stage.ts';
import { comparedWith, sideOf, unexplained } from '../../unit/compare/recorded.ts';
import { type RuleMode, rulesOf, withAddresses, withoutSentinel } from './written.ts';

/** Differences for which there is no known reason. @param plans the second one of objects without annotations of fairlead */
export async function openAt(
  stage: Stage,
  node: string,
  mode: RuleMode,
  plans: readonly Plan[],
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const family of FAMILIES) {
    const text = await rulesOf(stage, node, mode, family);
    const [plan, plain] = plans.map((one) => withAddresses(one, text.own));
    const rules = sideOf(mode, text.rules, plan!, family);
    found.push(...unexplained(comparedWith(plan!, rules, family, plain)));
  }
  return withoutSentinel(found);
}

export const plansOf = (
  [planner, plain]: readonly ReturnType<typeof createPlanner>[],
  changes: readonly ObjectChange[],
): readonly Plan[] => [planner!.apply(changes), plain!.apply(withoutOwnAnnotations(changes))];
