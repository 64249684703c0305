// SPDX-License-Identifier: Apache-2.0
// The cases that depend on how pods are connected, on the real kube-proxy, on other networks than that of the stories.
// FAIRLEAD_CASES=70 plays only these.
import { describe } from 'vitest';
import {
  networkCases,
  networkStories,
  OTHER_NETWORKS,
  USUAL_NETWORKS,
} from '../../support/fixture/stories/networks.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';

const STAGES = [...USUAL_NETWORKS, ...OTHER_NETWORKS].flatMap((network) =>
  RULE_MODES.map((mode) => ({ ...network, mode })),
);

describe.skipIf(isMissing).each(STAGES)('$name on $mode', (options) => {
  const stage = useStage({ ...options, start: oracle(options.mode) });
  const table = `oracle-${options.name}-${options.mode}`;
  testPlayed(stage, { table, stories: networkStories(), cases: networkCases() });
});
