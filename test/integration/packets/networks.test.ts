// SPDX-License-Identifier: Apache-2.0
// The cases that depend on how pods are connected, on fairlead, on other networks than that of the stories.
// FAIRLEAD_CASES=70 plays only these.
import { describe } from 'vitest';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { FAIRLEAD_MODES } from '../../support/fixture/proxies/proxy.ts';
import { NETWORKS, networkCases, networkStories } from '../../support/fixture/stories/networks.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';

const STAGES = NETWORKS.flatMap((network) => FAIRLEAD_MODES.map((mode) => ({ ...network, mode })));

describe.each(STAGES)('$name on $mode', (options) => {
  const stage = useStage({ ...options, start: fairlead });
  const table = `${options.name}-${options.mode}`;
  testPlayed(stage, { table, stories: networkStories(), cases: networkCases() });
});
