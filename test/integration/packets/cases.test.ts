// SPDX-License-Identifier: Apache-2.0
// The cases that are more than one connection, on fairlead. FAIRLEAD_CASES=126,127 plays only these.
import { describe } from 'vitest';
import { allCases } from '../../support/fixture/cases/all.ts';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { FAIRLEAD_MODES } from '../../support/fixture/proxies/proxy.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';

describe.each(FAIRLEAD_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: fairlead });
  testPlayed(stage, { table: `cases-${mode}`, cases: allCases() });
});
