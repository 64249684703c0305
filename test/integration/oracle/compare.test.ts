// SPDX-License-Identifier: Apache-2.0
// What `fairlead compare` says of the rules that the real kube-proxy writes for every story: no difference without a known reason,
// but where kube-proxy itself is wrong. FAIRLEAD_CASES=1,13 plays only these.
import { describe, expect, test } from 'vitest';
import { createPlanner } from '../../../src/plan/planner.ts';
import type { Story } from '../../conformance/story.ts';
import type { Stage } from '../../support/fixture/stage.ts';
import { preparationOf } from '../../support/fixture/stories/prepare.ts';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { useStage } from '../../support/fixture/tests.ts';
import { openAt, plansOf } from './compared.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';
import type { RuleMode } from './written.ts';

/** kube-proxy keeps the endpoints of a slice that belongs to another Service now: docs/semantics.md, `stale-slice`. */
const WRONG: readonly Story['case'][] = ['slice-moves'];

describe.skipIf(isMissing).each(RULE_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: oracle(mode) });

  test.for(playable())('$name', async (story) => {
    const around = preparationOf(story);
    await around.enter(stage());
    try {
      const found = await comparedSteps(stage(), story, mode);
      if (WRONG.includes(story.case)) expect(found).not.toEqual([]);
      else expect(found).toEqual([]);
    } finally {
      await around.leave(stage());
    }
  });
});

async function comparedSteps(
  stage: Stage,
  story: Story,
  mode: RuleMode,
): Promise<readonly string[]> {
  const planners = [createPlanner(story.settings), createPlanner(story.settings)] as const;
  const [cluster, first, ...later] = story.steps;
  const steps = [[...cluster!.changes, ...first!.changes], ...later.map(({ changes }) => changes)];
  const found: string[] = [];
  for (const [index, changes] of steps.entries()) {
    if (index === 0) await stage.reset(changes, story.settings);
    else await stage.change(changes);
    const open = await openAt(stage, story.settings.nodeName, mode, plansOf(planners, changes));
    found.push(...open.map((line) => `step ${index}: ${line}`));
  }
  return found;
}
