// SPDX-License-Identifier: Apache-2.0
// Random states of a Service, one after the other: what each client meets at each frontend is what the plan says, on the
// real kube-proxy in both modes. FAIRLEAD_HISTORIES=200 plays more of them; a failure prints its seed.
import { describe } from 'vitest';
import { testHistories, useStage } from '../../support/fixture/tests.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';

describe.skipIf(isMissing).each(RULE_MODES)('%s', (mode) => {
  testHistories(useStage({ network: 'routed', mode, start: oracle(mode) }));
});
