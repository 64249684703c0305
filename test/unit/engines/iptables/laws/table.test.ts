// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, for every policy, family, protocol and state of endpoints of table.txt.
import { describe, it } from 'vitest';
import { fixture } from '../../../../conformance/story.ts';
import { objectsOf, POLICIES, VARIANTS } from '../../../../support/fixture/stories/table-states.ts';
import { buildAll } from '../../../../support/plan/build-all.ts';
import { expectAgreement, SETTINGS } from './expect.ts';

/** A client makes no difference to the objects. */
const STATES = VARIANTS.filter(({ client }) => client === 'pod');

/** The node's own addresses count as pods', too: that goes before their being the node's. */
const ALL_OF_THE_NODE = ['192.0.2.0/24', '2001:db8::/64'];

describe('rules of the table', () => {
  for (const kind of ['ClusterIP', 'ExternalIP'] as const) {
    for (const policy of POLICIES) {
      it(`${kind === 'ClusterIP' ? 'internal' : 'external'} policy ${policy}`, () => {
        for (const state of STATES) {
          const objects = objectsOf(kind, policy, state);
          expectAgreement(buildAll(objects, fixture.settings));
          expectAgreement(
            buildAll(objects, { ...fixture.settings, clusterCidrs: ALL_OF_THE_NODE }),
            [],
            SETTINGS.slice(0, 1),
          );
        }
      });
    }
  }
});
