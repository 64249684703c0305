// SPDX-License-Identifier: Apache-2.0
// Every story of test/conformance that has a client, with real sockets in a cluster of network namespaces. First with
// pods whose sockets the hooks see, then with pods whose packets alone reach the node. What the capabilities of the
// dataplanes do not cover is listed with the reason, and a story without anything else is skipped.
// FAIRLEAD_CASES=1,13 plays only these.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { playStory } from '../../support/fixture/stories/play.ts';
import {
  openTable,
  playable,
  type Table,
  untriedReason,
} from '../../support/fixture/stories/table.ts';

describe.each(['fairlead', 'fairlead-packets'] as const)('%s', (mode) => {
  let stage: Stage;
  let table: Table;

  beforeAll(async () => {
    table = openTable(mode);
    stage = await startStage({ network: 'routed', mode, start: fairlead });
  }, 120_000);
  afterAll(() => {
    table?.end();
    stage?.remove();
  });

  test.for(playable())('$name', { timeout: 120_000 }, async (story, context) => {
    const results = await playStory(stage, story);
    table.add(story.name, results);
    expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
    const reason = untriedReason(results);
    if (reason !== undefined) context.skip(reason);
  });
});
