// SPDX-License-Identifier: Apache-2.0
// A cleanup removes every chain of ours and every jump to one, nothing else, and nothing at all where only a kube-proxy
// has written rules.
import { expect, test } from 'vitest';
import { heldTables } from '../../../../src/engines/iptables/state/diff/text.ts';
import { ownLeftovers } from '../../../../src/engines/kube-proxy/own-leftovers.ts';
import { ownerOf } from '../../../../src/engines/kube-proxy/own-rules.ts';
import { ruleRemoval } from '../../../../src/engines/kube-proxy/rules.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { memoryIptables } from '../../../support/iptables/memory/dataplane.ts';
import { restored, type Tables } from '../../../support/iptables/memory/restored.ts';
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

const GUARDED = { isGuardNeeded: true };

const everyPlan = (): readonly Plan[] =>
  storyRulesets().flatMap(({ states }) => states.slice(-1).map(({ plan }) => plan));

test('what was there before is there afterwards', async () => {
  for (const plan of everyPlan()) {
    const { dataplane, IPv4 } = memoryIptables();
    IPv4.restoreAsOther(OTHERS);
    const before = heldTables(IPv4.text());
    await dataplane.sync(plan, 'all', []);
    const held = heldTables(IPv4.text());
    const after = restored(held, ruleRemoval(ownLeftovers(held, GUARDED)));
    // The kubelet's chain has its rules, and what it shares with ours.
    const withoutShared = new Map([...after].map(([name, chains]) => [name, new Map(chains)]));
    for (const chain of ['KUBE-FIREWALL', 'INPUT', 'OUTPUT']) {
      withoutShared.get('filter')?.set(chain, before.get('filter')?.get(chain) ?? '');
    }
    expect(withoutShared).toEqual(before);
    expect(ownLeftovers(after, GUARDED)).toMatchObject({ tables: [], kept: [] });
  }
});

test('in several transactions, too: what is left after each is known to be ours', async () => {
  const [plan] = everyPlan().toSorted((a, b) => b.services.size - a.services.size);
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(plan!, 'all', []);
  let held = heldTables(IPv4.text());
  const whole = restored(held, ruleRemoval(ownLeftovers(held, GUARDED)));
  const transactions = ruleRemoval(ownLeftovers(held, GUARDED), 3).split(/(?<=COMMIT\n)/);
  expect(transactions.length).toBeGreaterThan(6);
  for (const input of transactions) {
    expect(ownerOf(held)).toMatch(/^fairlead/);
    expect(input.match(/^:/gm)?.length ?? 0).toBeLessThanOrEqual(3);
    held = restored(held, input);
    expect(restored(held, ruleRemoval(ownLeftovers(held, GUARDED)))).toEqual(whole);
  }
  expect(held).toEqual(whole);
});

/** An IPv4-only cluster has none of IPv6. */
test('without any Service, too, in both families', async () => {
  const { dataplane, IPv4, IPv6 } = memoryIptables();
  const [plan] = everyPlan();
  await dataplane.sync({ ...plan!, services: new Map(), serviceCidrs: [] }, 'all', []);
  for (const tables of [IPv4, IPv6]) {
    const held = heldTables(tables.text());
    expect([...(held.get('nat')?.keys() ?? [])]).toContain('KUBE-SERVICES');
    const after = restored(held, ruleRemoval(ownLeftovers(held, GUARDED)));
    const left = [...after.values()].flatMap((chains) => [...chains.keys()]);
    expect(left.filter((chain) => chain.startsWith('KUBE-') && chain !== 'KUBE-FIREWALL')).toEqual(
      [],
    );
  }
});

/** As `iptables -F`, and `-X` after it, leave a table; one whose chains others need keeps them. */
function flushed(held: Tables, how: readonly ('kept' | '-F' | '-X')[]): Tables {
  return new Map(
    [...held].map(([name, chains], index) => {
      const emptied = [...chains].map(([chain]) => [chain, ''] as const);
      if (how[index] === 'kept') return [name, chains];
      return [name, new Map(how[index] === '-F' ? emptied : [])];
    }),
  );
}

const WAYS = ['kept', '-F', '-X'] as const;
const MIXES = WAYS.flatMap((mangle) =>
  WAYS.flatMap((filter) => WAYS.map((nat) => [mangle, filter, nat] as const)),
);

test.each(MIXES)('whatever was flushed by hand: mangle %s, filter %s, nat %s', async (...mix) => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(everyPlan()[0]!, 'all', []);
  const held = flushed(heldTables(IPv4.text()), mix);
  const after = restored(held, ruleRemoval(ownLeftovers(held, { isGuardNeeded: false })));
  const left = [...after.values()].flatMap((chains) => [...chains.keys()]);
  expect(left.filter((chain) => chain.startsWith('KUBE-'))).toEqual([]);
});

test.each(MIXES)('a kube-proxy has them: mangle %s, filter %s, nat %s', async (...mix) => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(everyPlan()[0]!, 'all', []);
  const taken = heldTables(
    IPv4.text()
      .split('\n')
      .filter((line) => !line.includes('-j KUBE-CLUSTER-IPS'))
      .join('\n'),
  );
  const held = flushed(taken, mix);
  if (mix[1] !== 'kept' && mix[2] !== 'kept') return; // Nobody's any more.
  const going = ownLeftovers(held, { isGuardNeeded: false }).tables.flatMap(({ chains }) => chains);
  expect([...new Set(going.map(({ name }) => name))]).toEqual(['KUBE-CLUSTER-IPS']);
});

test.each([
  { what: 'nobody needs it', needed: false, chains: '', isLeft: false },
  { what: 'loopback addresses are routed', needed: true, chains: '', isLeft: true },
  { what: 'a kubelet', needed: false, chains: ':KUBE-KUBELET-CANARY - [0:0]\n', isLeft: true },
  { what: 'a rule of another', needed: false, chains: '-A KUBE-FIREWALL -j DROP\n', isLeft: true },
])('the guard of loopback addresses, $what', async ({ needed, chains, isLeft }) => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(everyPlan()[0]!, 'all', []);
  if (chains !== '') IPv4.restoreAsOther(`*filter\n${chains}COMMIT\n`);
  const held = heldTables(IPv4.text());
  const found = ownLeftovers(held, { isGuardNeeded: needed });
  const after = restored(held, ruleRemoval(found));
  expect(after.get('filter')?.has('KUBE-FIREWALL')).toBe(isLeft);
  expect(after.get('filter')?.get('INPUT')?.includes('KUBE-FIREWALL')).toBe(isLeft);
  const kept = found.kept.filter(({ what }) => what === 'filter KUBE-FIREWALL');
  expect(kept.length).toBe(isLeft ? 1 : 0);
});

test('a chain that a rule of others jumps to stays, and is named', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  IPv4.restoreAsOther('*nat\n:CNI-SETMARK - [0:0]\nCOMMIT\n');
  await dataplane.sync(everyPlan()[0]!, 'all', []);
  IPv4.restoreAsOther('*nat\n-A CNI-SETMARK -s 10.1.0.9/32 -j KUBE-MARK-MASQ\nCOMMIT\n');
  const held = heldTables(IPv4.text());
  const found = ownLeftovers(held, GUARDED);
  const nat = restored(held, ruleRemoval(found)).get('nat');
  expect(nat?.get('CNI-SETMARK')).toBe('-s 10.1.0.9/32 -j KUBE-MARK-MASQ');
  expect(nat?.get('KUBE-MARK-MASQ')).toBe(held.get('nat')?.get('KUBE-MARK-MASQ'));
  expect(found.kept.map(({ what }) => what)).toContain('nat KUBE-MARK-MASQ');
});

test('rules of a kube-proxy are not ours to remove', () => {
  const saved = '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n*filter\n:KUBE-SERVICES - [0:0]\nCOMMIT\n';
  expect(ownLeftovers(heldTables(saved), GUARDED).tables).toEqual([]);
});

test('of a kube-proxy that has taken them over, only the chain that it does not know', () => {
  const saved =
    '*filter\n:KUBE-CLUSTER-IPS - [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-FORWARD - [0:0]\n-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n-A KUBE-CLUSTER-IPS -d 10.96.0.10/32 -j REJECT\nCOMMIT\n';
  expect(ruleRemoval(ownLeftovers(heldTables(saved), GUARDED))).toBe(
    '*filter\n:KUBE-CLUSTER-IPS - [0:0]\n-X KUBE-CLUSTER-IPS\nCOMMIT\n',
  );
});
