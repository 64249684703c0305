// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, cases.test.ts and histories.test.ts, on the rules that fairlead writes with `--engine iptables`.
import { describe } from 'vitest';
import { allCases } from '../../support/fixture/cases/all.ts';
import { fairleadRules } from '../../support/fixture/proxies/fairlead.ts';
import { FAIRLEAD_RULE_MODES } from '../../support/fixture/proxies/proxy.ts';
import { playable } from '../../support/fixture/stories/table.ts';
import { testHistories, testPlayed, useStage } from '../../support/fixture/tests.ts';

describe.each(FAIRLEAD_RULE_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: fairleadRules(mode) });
  testPlayed(stage, { table: mode, stories: playable(), cases: allCases() });
  testHistories(stage);
});
