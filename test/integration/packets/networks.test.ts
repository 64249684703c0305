// SPDX-License-Identifier: Apache-2.0
// The cases that depend on how pods are connected, on fairlead, on other networks than that of the stories.
// FAIRLEAD_CASES=70 plays only these.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { playCase } from '../../support/fixture/cases/case.ts';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { NETWORKS, networkCases, networkStories } from '../../support/fixture/stories/networks.ts';
import { playStory } from '../../support/fixture/stories/play.ts';
import { openTable, type Table, untriedReason } from '../../support/fixture/stories/table.ts';

const STAGES = NETWORKS.flatMap((network) =>
  (['fairlead', 'fairlead-packets'] as const).map((mode) => ({ ...network, mode })),
);

describe.each(STAGES)('$name on $mode', (options) => {
  let stage: Stage;
  let table: Table;

  beforeAll(async () => {
    table = openTable(`${options.name}-${options.mode}`);
    stage = await startStage({ ...options, start: fairlead });
  }, 120_000);
  afterAll(() => {
    table?.end();
    stage?.remove();
  });

  test.for(networkStories())('$name', { timeout: 120_000 }, async (story, context) => {
    const results = await playStory(stage, story);
    table.add(story.name, results);
    expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
    const reason = untriedReason(results);
    if (reason !== undefined) context.skip(reason);
  });

  test.for(networkCases())('$case: $title', { timeout: 120_000 }, async (one, context) => {
    const results = await playCase(stage, one);
    table.add(`${one.case}: ${one.title}`, results);
    expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
    const reason = untriedReason(results);
    if (reason !== undefined) context.skip(reason);
  });
});
