// SPDX-License-Identifier: Apache-2.0
// As stories.test.ts, for every policy, family, protocol and state of endpoints of table.txt.
import { describe, it } from 'vitest';
import { buildAll } from '../../../../../src/plan/build.ts';
import { fixture } from '../../../../conformance/story.ts';
import { objectsOf, POLICIES, VARIANTS } from '../../../../conformance/table-states.ts';
import { expectAgreement } from './expect.ts';

/** A client makes no difference to the objects. */
const STATES = VARIANTS.filter(({ client }) => client === 'pod');

describe('rules of the table', () => {
  for (const kind of ['ClusterIP', 'ExternalIP'] as const) {
    for (const policy of POLICIES) {
      it(`${kind === 'ClusterIP' ? 'internal' : 'external'} policy ${policy}`, () => {
        for (const state of STATES)
          expectAgreement(buildAll(objectsOf(kind, policy, state), fixture.settings));
      });
    }
  }
});
