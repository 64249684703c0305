// SPDX-License-Identifier: Apache-2.0
// A cleanup removes every chain of ours and every jump to one, nothing else, and nothing at all where only a kube-proxy
// has written rules.
import { expect, test } from 'vitest';
import {
  isWrittenByUs,
  removalInput,
  removals,
} from '../../../../../src/dataplane/iptables/diff/remove.ts';
import { heldTables } from '../../../../../src/dataplane/iptables/diff/text.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import { memoryIptables } from '../../../../support/iptables/memory/dataplane.ts';
import { restored } from '../../../../support/iptables/memory/restored.ts';
import { storyRulesets } from '../../../../support/iptables/story-rulesets.ts';

const OTHERS = `*filter
:CNI-FORWARD - [0:0]
:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL -j DROP
-A FORWARD -j CNI-FORWARD
-A INPUT -j KUBE-FIREWALL
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
-A POSTROUTING -s 10.1.0.0/16 -j MASQUERADE
COMMIT
`;

const everyPlan = (): readonly Plan[] =>
  storyRulesets().flatMap(({ states }) => states.slice(-1).map(({ plan }) => plan));

test('what was there before is there afterwards', async () => {
  for (const plan of everyPlan()) {
    const { dataplane, IPv4 } = memoryIptables();
    IPv4.restoreAsOther(OTHERS);
    const before = heldTables(IPv4.text());
    await dataplane.sync(plan, 'all', []);
    const held = heldTables(IPv4.text());
    expect(isWrittenByUs(held)).toBe(true);
    const after = restored(held, removalInput(removals(held)));
    // The kubelet's chain has its rules, and what it shares with ours.
    const withoutShared = new Map([...after].map(([name, chains]) => [name, new Map(chains)]));
    for (const chain of ['KUBE-FIREWALL', 'INPUT', 'OUTPUT']) {
      withoutShared.get('filter')?.set(chain, before.get('filter')?.get(chain) ?? '');
    }
    expect(withoutShared).toEqual(before);
    expect(removals(after)).toEqual([]);
  }
});

test('rules of a kube-proxy are not ours to remove', () => {
  const saved = '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n*filter\n:KUBE-SERVICES - [0:0]\nCOMMIT\n';
  expect(isWrittenByUs(heldTables(saved))).toBe(false);
});
