// SPDX-License-Identifier: Apache-2.0
// Random states of a Service, one after the other: what each client meets at each frontend is what the plan says, on
// fairlead. FAIRLEAD_HISTORIES=200 plays more of them; a failure prints its seed.
import { describe } from 'vitest';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { FAIRLEAD_MODES } from '../../support/fixture/proxies/proxy.ts';
import { testHistories, useStage } from '../../support/fixture/tests.ts';

describe.each(FAIRLEAD_MODES)('%s', (mode) => {
  testHistories(useStage({ network: 'routed', mode, start: fairlead }));
});
