// SPDX-License-Identifier: Apache-2.0
// The cases that are more than one connection, on the real kube-proxy in both modes. FAIRLEAD_CASES=126,127 plays only
// these.
import { describe } from 'vitest';
import { allCases } from '../../support/fixture/cases/all.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';

describe.skipIf(isMissing).each(RULE_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: oracle(mode) });
  testPlayed(stage, { table: `oracle-cases-${mode}`, cases: allCases() });
});
