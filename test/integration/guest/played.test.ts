// SPDX-License-Identifier: Apache-2.0
// Stories and cases with real sockets, of the stage `packets`, on one cluster for each mode, because a virtual machine needs minutes to build
// one. FAIRLEAD_CASES=1,13,fragments plays only these.
import { describe } from 'vitest';
import { allCases } from '../../support/fixture/cases/all.ts';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { FAIRLEAD_MODES } from '../../support/fixture/proxies/proxy.ts';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';

describe.each(FAIRLEAD_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: fairlead });
  testPlayed(stage, { table: `guest-${mode}`, stories: playable(), cases: allCases() });
});
