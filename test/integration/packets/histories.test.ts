// SPDX-License-Identifier: Apache-2.0
// Random states of a Service, one after the other: what each client meets at each frontend is what the plan says, on
// fairlead. FAIRLEAD_HISTORIES=200 plays more of them; a failure prints its seed.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { drawn, storyOf } from '../../support/fixture/histories.ts';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { playStory } from '../../support/fixture/stories/play.ts';
import { repeatable } from '../../support/random.ts';

const COUNT = Number(process.env['FAIRLEAD_HISTORIES'] ?? 20);
const STATE_MS = 60_000;

describe.each(['fairlead', 'fairlead-packets'] as const)('%s', (mode) => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await startStage({ network: 'routed', mode, start: fairlead });
  }, 120_000);
  afterAll(() => stage?.remove());

  test(`${COUNT} states`, { timeout: COUNT * STATE_MS }, async () => {
    const isPlayed = fc.asyncProperty(drawn, async (state) => {
      const results = await playStory(stage, storyOf(state));
      expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
    });
    await fc.assert(isPlayed, repeatable(COUNT));
  });
});
