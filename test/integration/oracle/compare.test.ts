// SPDX-License-Identifier: Apache-2.0
// What `fairlead compare` says of the rules that the real kube-proxy writes for every story: no difference without a known reason,
// but where kube-proxy itself is wrong. FAIRLEAD_CASES=1,13 plays only these.
import { describe, expect, test } from 'vitest';
import { withoutOwnAnnotations } from '../../../src/compare/plain.ts';
import { FAMILIES, type Family, type ObjectChange } from '../../../src/model/types.ts';
import { createPlanner } from '../../../src/plan/planner.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { run } from '../../../src/sys/exec.ts';
import { insideSandbox } from '../../../tools/lab/sandbox.ts';
import type { Story } from '../../conformance/story.ts';
import type { Stage } from '../../support/fixture/stage.ts';
import { preparationOf } from '../../support/fixture/stories/prepare.ts';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { useStage } from '../../support/fixture/tests.ts';
import { comparedWith, sideOf, unexplained } from '../../unit/compare/recorded.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';

/** kube-proxy keeps the endpoints of a slice that belongs to another Service now: docs/semantics.md, `stale-slice`. */
const WRONG: readonly Story['case'][] = ['slice-moves'];
/** The Service that each change of the fixture waits for. */
const SENTINEL = /10\.96\.255\.254|fd00:96::fffe/;

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

type Mode = (typeof RULE_MODES)[number];

async function comparedSteps(stage: Stage, story: Story, mode: Mode): Promise<readonly string[]> {
  const planners = [createPlanner(story.settings), createPlanner(story.settings)] as const;
  const [cluster, first, ...later] = story.steps;
  const steps = [[...cluster!.changes, ...first!.changes], ...later.map(({ changes }) => changes)];
  const found: string[] = [];
  for (const [index, changes] of steps.entries()) {
    if (index === 0) await stage.reset(changes, story.settings);
    else await stage.change(changes);
    const plans = plansOf(planners, changes);
    for (const family of FAMILIES) {
      const text = await rulesOf(stage, story.settings.nodeName, mode, family);
      const [plan, plain] = plans.map((one) => withAddresses(one, text.own));
      const rules = sideOf(mode, text.rules, plan!, family);
      const open = unexplained(comparedWith(plan!, rules, family, plain));
      found.push(
        ...open.filter((line) => !SENTINEL.test(line)).map((line) => `step ${index}: ${line}`),
      );
    }
  }
  return found;
}

const plansOf = (
  [planner, plain]: readonly ReturnType<typeof createPlanner>[],
  changes: readonly ObjectChange[],
): readonly Plan[] => [planner!.apply(changes), plain!.apply(withoutOwnAnnotations(changes))];

/** Rules ask the kernel for the addresses of the node. */
const withAddresses = (plan: Plan, own: readonly string[]): Plan => ({
  ...plan,
  node: { ...plan.node, localAddresses: own },
});

const TOOLS = {
  iptables: { IPv4: ['iptables-legacy-save'], IPv6: ['ip6tables-legacy-save'] },
  nftables: { IPv4: ['nft', '-y', 'list', 'ruleset'], IPv6: ['nft', '-y', 'list', 'ruleset'] },
} as const;

async function rulesOf(stage: Stage, node: string, mode: Mode, family: Family) {
  const inNode = async (argv: readonly string[]): Promise<string> => {
    const [program = '', ...args] = insideSandbox(stage.cluster.sandbox(node), argv);
    return (await run(program, args)).stdout;
  };
  const devices: readonly { addr_info: { local: string; scope: string }[] }[] = JSON.parse(
    await inNode(['ip', '-json', 'address']),
  );
  const own = devices
    .flatMap(({ addr_info: addresses }) => addresses)
    .flatMap(({ local, scope }) => (scope === 'global' ? [local] : []));
  return { rules: await inNode(TOOLS[mode][family]), own };
}
