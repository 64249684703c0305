// SPDX-License-Identifier: Apache-2.0
// Every state of every story.
import { describe, expect, test } from 'vitest';
import { STORIES } from '../../../../conformance/conformance.ts';
import { readStories } from '../../../../conformance/story.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { startRules } from './expect.ts';

describe.each(STORIES)('the table of %s', (file) => {
  test.each(readStories(file))('$name', async ({ settings: fixed, steps }) => {
    const rules = startRules();
    const planner = createPlanner(fixed);
    for (const { changes } of steps) await rules.expectAgreement(planner.apply(changes).plan);
    expect(rules.classes()).toBeGreaterThan(100);
    await rules.close();
  });
});
