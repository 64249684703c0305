// SPDX-License-Identifier: Apache-2.0
// A cleanup removes every chain of ours and every jump to one, nothing else, and nothing at all where only a kube-proxy
// has written rules.
import { expect, test } from 'vitest';
import { heldTables } from '../../../../src/dataplane/iptables/diff/text.ts';
import { ownLeftovers, ruleRemoval } from '../../../../src/dataplane/leftovers/rules.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { memoryIptables } from '../../../support/iptables/memory/dataplane.ts';
import { restored } from '../../../support/iptables/memory/restored.ts';
import { storyRulesets } from '../../../support/iptables/story-rulesets.ts';

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
    const after = restored(held, ruleRemoval(ownLeftovers(held)));
    // The kubelet's chain has its rules, and what it shares with ours.
    const withoutShared = new Map([...after].map(([name, chains]) => [name, new Map(chains)]));
    for (const chain of ['KUBE-FIREWALL', 'INPUT', 'OUTPUT']) {
      withoutShared.get('filter')?.set(chain, before.get('filter')?.get(chain) ?? '');
    }
    expect(withoutShared).toEqual(before);
    expect(ownLeftovers(after)).toMatchObject({ tables: [], kept: [] });
  }
});

/** An IPv4-only cluster has none of IPv6. */
test('without any Service, too, in both families', async () => {
  const { dataplane, IPv4, IPv6 } = memoryIptables();
  const [plan] = everyPlan();
  await dataplane.sync({ ...plan!, services: new Map(), serviceCidrs: [] }, 'all', []);
  for (const tables of [IPv4, IPv6]) {
    const held = heldTables(tables.text());
    expect([...(held.get('nat')?.keys() ?? [])]).toContain('KUBE-SERVICES');
    const after = restored(held, ruleRemoval(ownLeftovers(held)));
    const left = [...after.values()].flatMap((chains) => [...chains.keys()]);
    expect(left.filter((chain) => chain.startsWith('KUBE-') && chain !== 'KUBE-FIREWALL')).toEqual(
      [],
    );
  }
});

test('a chain that a rule of others jumps to stays, and is named', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  IPv4.restoreAsOther('*nat\n:CNI-SETMARK - [0:0]\nCOMMIT\n');
  await dataplane.sync(everyPlan()[0]!, 'all', []);
  IPv4.restoreAsOther('*nat\n-A CNI-SETMARK -s 10.1.0.9/32 -j KUBE-MARK-MASQ\nCOMMIT\n');
  const held = heldTables(IPv4.text());
  const found = ownLeftovers(held);
  const nat = restored(held, ruleRemoval(found)).get('nat');
  expect(nat?.get('CNI-SETMARK')).toBe('-s 10.1.0.9/32 -j KUBE-MARK-MASQ');
  expect(nat?.get('KUBE-MARK-MASQ')).toBe(held.get('nat')?.get('KUBE-MARK-MASQ'));
  expect(found.kept.map(({ what }) => what)).toContain('nat KUBE-MARK-MASQ');
});

test('rules of a kube-proxy are not ours to remove', () => {
  const saved = '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n*filter\n:KUBE-SERVICES - [0:0]\nCOMMIT\n';
  expect(ownLeftovers(heldTables(saved)).tables).toEqual([]);
});

test('of a kube-proxy that has taken them over, only the chain that it does not know', () => {
  const saved =
    '*filter\n:KUBE-CLUSTER-IPS - [0:0]\n:KUBE-SERVICES - [0:0]\n-A KUBE-CLUSTER-IPS -d 10.96.0.10/32 -j REJECT\nCOMMIT\n';
  expect(ruleRemoval(ownLeftovers(heldTables(saved)))).toBe(
    '*filter\n:KUBE-CLUSTER-IPS - [0:0]\n-X KUBE-CLUSTER-IPS\nCOMMIT\n',
  );
});
