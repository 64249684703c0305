// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, for random states: of one Service with all that it may have, and of a crowded cluster whose
// Services get in each other's way.
import fc from 'fast-check';
import { describe, it } from 'vitest';
import { drawn, storyOf } from '../../../../support/fixture/histories.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { atNight, repeatable } from '../../../../support/random.ts';
import { history, settings } from '../../../plan/histories.ts';
import { expectAgreement, SETTINGS } from './expect.ts';

const STATES = atNight(100, 1500);
const TIMEOUT_MS = 120_000;
const oneOf = fc.constantFrom(...SETTINGS);

describe('rules of random states', () => {
  it(
    'of one Service',
    () => {
      fc.assert(
        fc.property(drawn, oneOf, (state, rendered) => {
          const { settings: fixed, steps } = storyOf(state);
          const planner = createPlanner(fixed);
          for (const { changes } of steps) planner.apply(changes);
          expectAgreement(planner.current(), [], [rendered]);
        }),
        repeatable(STATES),
      );
    },
    TIMEOUT_MS,
  );

  it(
    'of Services that get in each other’s way',
    () => {
      fc.assert(
        fc.property(history, settings, oneOf, (batches, chosen, rendered) => {
          const planner = createPlanner(chosen);
          for (const batch of batches) planner.apply(batch);
          expectAgreement(planner.current(), [], [rendered]);
        }),
        repeatable(STATES),
      );
    },
    TIMEOUT_MS,
  );
});
