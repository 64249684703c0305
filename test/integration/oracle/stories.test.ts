// SPDX-License-Identifier: Apache-2.0
// Every story of test/conformance that has a client, on the real kube-proxy in both modes: what it does differently must
// be known. FAIRLEAD_CASES=1,13 plays only these.
import { describe } from 'vitest';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';

describe.skipIf(isMissing).each(RULE_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: oracle(mode) });
  testPlayed(stage, { table: `oracle-${mode}`, stories: playable() });
});
