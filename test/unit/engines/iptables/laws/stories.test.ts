// SPDX-License-Identifier: Apache-2.0
// The rules of every state of every conformance story do with every packet what the plan says: the same verdict, the
// same backends with the same shares, masqueraded or not, and session affinity as long as it should be.
import { describe, it } from 'vitest';
import { STORIES } from '../../../../conformance/conformance.ts';
import { expectationOf, readStories } from '../../../../conformance/story.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { expectAgreement } from './expect.ts';

describe.each(STORIES)('rules of %s', (file) => {
  for (const story of readStories(file)) {
    it(story.name, () => {
      const planner = createPlanner(story.settings);
      for (const { changes, expect: lines = [] } of story.steps) {
        const { plan } = planner.apply(changes);
        expectAgreement(
          plan,
          lines.map((line) => expectationOf(line).packet),
        );
      }
    });
  }
});
