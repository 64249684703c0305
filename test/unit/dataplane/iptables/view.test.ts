// SPDX-License-Identifier: Apache-2.0
// In every state of every conformance story: what the views read from the rules is what the plan wants, and what is held is
// what a router would have asked for.
import { describe, expect, test } from 'vitest';
import { IPTABLES } from '../../../../src/dataplane/capabilities.ts';
import { frontendKeyText } from '../../../../src/dataplane/entry.ts';
import { heldTexts } from '../../../../src/dataplane/share.ts';
import { backendRows } from '../../../../src/observe/backend-rows.ts';
import { serviceRows } from '../../../../src/observe/service-rows.ts';
import { memoryIptables } from '../../../support/iptables/memory/dataplane.ts';
import { storyRulesets } from '../../../support/iptables/story-rulesets.ts';

describe.each(storyRulesets())('$file $story.name', ({ states }) => {
  test('views', async () => {
    const { dataplane } = memoryIptables();
    for (const { plan } of states) {
      await dataplane.sync(plan, 'all', []);
      const { frontends, backends } = await dataplane.snapshot();
      const rows = serviceRows(plan, frontends, [IPTABLES]);
      expect(rows.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
      const others = backendRows(plan, backends).filter(({ kernelState }) => kernelState !== 'ok');
      expect(others).toEqual([]);
      const held = [...(await dataplane.held())].map(({ id }) => frontendKeyText(id));
      const wanted = [...plan.services.values()].flatMap((service) => heldTexts(service));
      expect(held.sort()).toEqual(wanted.sort());
    }
  });
});
