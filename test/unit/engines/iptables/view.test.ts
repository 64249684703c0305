// SPDX-License-Identifier: Apache-2.0
// In every state of every conformance story: what the views read from the rules is what the plan wants, and what is held is
// what a router would have asked for.
import { describe, expect, test } from 'vitest';
import { IPTABLES } from '../../../../src/engines/capabilities.ts';
import { frontendKeyText } from '../../../../src/engines/entry.ts';
import { heldTexts } from '../../../../src/engines/router/share.ts';
import { backendRows } from '../../../../src/observe/backend-rows.ts';
import { serviceRows } from '../../../../src/observe/service-rows.ts';
import { memoryIptables } from '../../../support/iptables/memory/dataplane.ts';
import { storyRulesets } from '../../../support/iptables/story-rulesets.ts';
import { backend, clusterIp, planOf, servicePort } from '../bpf/plans.ts';

describe.each(storyRulesets())('$file $story.name', ({ states }) => {
  test('views', async () => {
    const { dataplane } = memoryIptables();
    for (const { plan } of states) {
      await dataplane.sync(plan, 'all', []);
      const { frontends, backends } = await dataplane.snapshot();
      const rows = serviceRows(plan, frontends, [IPTABLES]);
      const wrong = rows.filter(({ kernelState }) => !['ok', 'withheld'].includes(kernelState));
      expect(wrong).toEqual([]);
      const others = backendRows(plan, backends).filter(({ kernelState }) => kernelState !== 'ok');
      expect(others).toEqual([]);
      const held = [...(await dataplane.held())].map(({ id }) => frontendKeyText(id));
      const wanted = [...plan.services.values()].flatMap((service) => heldTexts(service));
      expect(held.sort()).toEqual(wanted.sort());
    }
  });
});

test('what the rules do not have is absent, not 0; whether a backend is here the plan knows', async () => {
  const { dataplane } = memoryIptables();
  const port = servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.1', 80, true)]);
  const plan = planOf(port);
  await dataplane.sync(plan, 'all', []);
  const { frontends, backends } = await dataplane.snapshot();
  const [service] = serviceRows(plan, frontends, [IPTABLES]);
  expect(service).toMatchObject({ kernelState: 'ok', servedBy: ['iptables'] });
  const counters = ['connections', 'refused', 'dropped', 'affinityHits', 'toBackend', 'toClient'];
  expect(Object.keys(asJson(service)).filter((key) => counters.includes(key))).toEqual([]);
  const [row] = backendRows(plan, backends);
  expect(row).toMatchObject({ kernelState: 'ok', isLocal: true, dataplane: 'iptables' });
  const unknown = ['connections', 'open', 'id', 'generation'];
  expect(Object.keys(asJson(row)).filter((key) => unknown.includes(key))).toEqual([]);
  expect([...dataplane.counters().connections]).toEqual([]);
  expect(dataplane.counters().outcomes).toEqual({});
});

/** As commands read it. */
const asJson = (value: unknown): object => JSON.parse(JSON.stringify(value)) as object;
