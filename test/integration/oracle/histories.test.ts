// SPDX-License-Identifier: Apache-2.0
// Random states of a Service, one after the other: what each client meets at each frontend is what the plan says, on the
// real kube-proxy in both modes. And `fairlead compare` proves it of the rules of each state: so its answers are what packets
// show, which were sent through the same rules. FAIRLEAD_HISTORIES=200 plays more of them; a failure prints its seed.
import { describe } from 'vitest';
import { createPlanner } from '../../../src/plan/planner.ts';
import { testHistories, useStage } from '../../support/fixture/tests.ts';
import { openAt, plansOf } from './compared.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';

describe.skipIf(isMissing).each(RULE_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: oracle(mode) });
  testHistories(stage, {
    count: 200,
    check: ({ settings, steps }) => {
      const planners = [createPlanner(settings), createPlanner(settings)];
      const changes = steps.flatMap((step) => step.changes);
      return openAt(stage(), settings.nodeName, mode, plansOf(planners, changes));
    },
  });
});
