// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, for a Service with more endpoints than a cluster may have for its rules to have all comments: a
// thousand roundings must not add up.
import { expect, it } from 'vitest';
import { render } from '../../../../../src/engines/iptables/rows/render.ts';
import { CLUSTER, fixture, named, packetOf } from '../../../../conformance/story.ts';
import { disagreement } from '../../../../support/iptables/agreement.ts';
import { DEFAULTS } from '../../../../support/iptables/story-rulesets.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';

const ENDPOINTS = 1_200;

it(`${ENDPOINTS} backends have the same share`, () => {
  const endpoints = Array.from({ length: ENDPOINTS }, (_, index) => ({
    addresses: [`10.1.${100 + Math.floor(index / 250)}.${1 + (index % 250)}`],
    nodeName: 'n2',
  }));
  const planner = createPlanner(fixture.settings);
  planner.apply(CLUSTER.changes);
  const { plan } = planner.apply([
    { type: 'put', ...named('web') },
    { type: 'put', ...named({ use: 'ab', patch: { endpoints } }) },
  ]);
  const rendered = { plan, rulesets: render(plan, DEFAULTS), settings: DEFAULTS };
  for (const client of ['p1', 'X', '10.1.100.1'])
    expect(disagreement(rendered, packetOf(client, 'svc:80/tcp'))).toBeUndefined();
});
