// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, for random states: of one Service with all that it may have, and of a crowded cluster whose Services get
// in each other's way.
import fc from 'fast-check';
import { describe, test } from 'vitest';
import { drawn, storyOf } from '../../../../support/fixture/histories.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { atNight, repeatable } from '../../../../support/random.ts';
import { history, settings } from '../../../plan/histories.ts';
import { startRules } from './expect.ts';

const STATES = atNight(60, 1_000);
const TIMEOUT_MS = 600_000;

describe('the table of random states', () => {
  test(
    'of one Service',
    async () => {
      const rules = startRules();
      const isRight = fc.asyncProperty(drawn, async (state) => {
        const { settings: fixed, steps } = storyOf(state);
        const planner = createPlanner(fixed);
        for (const { changes } of steps) planner.apply(changes);
        await rules.expectAgreement(planner.current());
      });
      await fc.assert(isRight, repeatable(STATES));
      await rules.close();
    },
    TIMEOUT_MS,
  );

  test(
    'of Services that get in each other’s way',
    async () => {
      const isRight = fc.asyncProperty(history, settings, async (batches, chosen) => {
        const rules = startRules();
        const planner = createPlanner(chosen);
        for (const batch of batches) await rules.expectAgreement(planner.apply(batch).plan);
        await rules.close();
      });
      await fc.assert(isRight, repeatable(STATES));
    },
    TIMEOUT_MS,
  );
});
