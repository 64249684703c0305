// SPDX-License-Identifier: Apache-2.0
// Every story of test/conformance that has a client, with real sockets in a cluster of network namespaces. First with
// pods whose sockets the hooks see, then with pods whose packets alone reach the node. What the capabilities of the
// dataplanes do not cover is listed with the reason, and a story without anything else is skipped.
// FAIRLEAD_CASES=1,13 plays only these.
import { describe } from 'vitest';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { FAIRLEAD_MODES } from '../../support/fixture/proxies/proxy.ts';
import { playable, playableOfFairlead } from '../../support/fixture/stories/story-table.ts';
import { testPlayed, useStage } from '../../support/fixture/tests.ts';

describe.each(FAIRLEAD_MODES)('%s', (mode) => {
  const stage = useStage({ network: 'routed', mode, start: fairlead });
  testPlayed(stage, { table: mode, stories: [...playable(), ...playableOfFairlead()] });
});
