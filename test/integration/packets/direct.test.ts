// SPDX-License-Identifier: Apache-2.0
// Stories and cases with clients outside, with direct return as the default of the nodes: the answers are the same, and backends
// of other nodes see the client. FAIRLEAD_FORWARDING=dsr plays all other files so.
import { describe } from 'vitest';
import { allCases } from '../../support/fixture/cases/all.ts';
import type { Case } from '../../support/fixture/cases/case.ts';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';

/** Frontends of every kind, both families, and sources that are refused. */
const STORIES: readonly (number | string)[] = [70, 72, 73, 84, 85, 88, 94, 100, 102];
const CASES: readonly Case['case'][] = [
  ...['fragments', 'bulk', 'datagrams', 'network-policy', 'invalid', 'snat-port', 127, 157],
];

describe('fairlead', () => {
  const stage = useStage({
    ...{ network: 'routed', mode: 'fairlead', start: fairlead, forwarding: 'dsr' },
  });
  testPlayed(stage, {
    table: 'direct',
    stories: playable().filter((story) => STORIES.includes(story.case)),
    cases: allCases().filter((one) => CASES.includes(one.case)),
  });
});
