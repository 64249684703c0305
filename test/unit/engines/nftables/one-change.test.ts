// SPDX-License-Identifier: Apache-2.0
// One change of many Services: what follows from it is what a rendering of everything gives, and no other Service is looked at.
import { expect, test } from 'vitest';
import { createRenderer } from '../../../../src/engines/nftables/rows/render.ts';
import { emptyTable } from '../../../../src/engines/nftables/rules/parse.ts';
import type { Fragment, Ruleset } from '../../../../src/engines/nftables/rules/types.ts';
import { applyDiff } from '../../../../src/engines/nftables/state/apply.ts';
import { diffTable, isNothing } from '../../../../src/engines/nftables/state/diff.ts';
import { allWanted, wantedSince } from '../../../../src/engines/nftables/state/wanted.ts';
import { persistentMap } from '../../../../src/lib/persistent/map.ts';
import type { Plan, ServicePlan } from '../../../../src/plan/types.ts';
import { DEFAULTS } from '../../../support/nftables/transactions.ts';
import { randomOf, SEED } from '../../../support/random.ts';
import { backend, clusterIp, planOf, servicePort } from '../bpf/plans.ts';

const planWith = (services: Plan['services']): Plan => ({ ...planOf(), services });

/** @param count of backends, of which some are of this node @param first where it begins among the pods of all Services */
function serviceOf(number: number, count: number, first: number, isMasqueraded = false) {
  const { rules, ...frontend } = clusterIp(`10.96.0.${number + 1}`);
  const outside = { ...rules.outside, masquerade: isMasqueraded };
  const backends = Array.from({ length: count }, (_, at) =>
    backend(`10.1.1.${first + at + 1}`, 8080, (first + at) % 3 === 0),
  );
  const protocol = number % 5 === 4 ? 'UDP' : 'TCP';
  const port = servicePort(
    `s${number}`,
    [{ ...frontend, rules: { ...rules, outside } }],
    backends,
    { protocol },
  );
  const [entry] = planOf(port).services;
  return entry!;
}

const ipv4 = (rulesets: readonly Ruleset[]): Ruleset =>
  rulesets.find(({ family }) => family === 'IPv4')!;

function countsOf({ fragments }: Ruleset, namesIn: (fragment: Fragment) => readonly string[]) {
  const counts: Record<string, number> = {};
  for (const fragment of fragments.values())
    for (const name of new Set(namesIn(fragment))) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

test('a history of changes ends as one rendering of everything does', () => {
  const random = randomOf(SEED);
  const below = (most: number): number => Math.floor(random() * most);
  const renderer = createRenderer(DEFAULTS);
  const held = emptyTable();
  let services = persistentMap<ServicePlan>();
  let before: Ruleset | undefined;
  for (let step = 0; step < 300; step += 1) {
    const changes = Array.from({ length: 1 + below(3) }, () => {
      const number = below(30);
      const [key, plan] = serviceOf(number, below(500), below(40), below(4) === 0);
      return [key, below(4) === 0 ? undefined : plan] as const;
    });
    services = services.withChanges(changes);
    const ruleset = ipv4(renderer.render(planWith(services)));
    const wanted = before === undefined ? allWanted(ruleset) : wantedSince(before, ruleset);
    applyDiff(held, diffTable(held, wanted, before === undefined));
    before = ruleset;
    const rest = diffTable(held, allWanted(ruleset), true);
    expect([step, isNothing(rest), rest]).toEqual([step, true, rest]);
    expect([step, Object.fromEntries(ruleset.maps)]).toEqual([
      step,
      countsOf(ruleset, ({ maps }) => maps),
    ]);
    expect(Object.fromEntries(ruleset.hairpins)).toEqual(
      countsOf(ruleset, ({ hairpins }) => hairpins),
    );
    const masquerades = [...ruleset.fragments.values()].some((one) => one.masquerades !== 'nobody');
    const chain = ruleset.chains.get('services')?.rules ?? '';
    expect([step, chain.includes('masquerade clients')]).toEqual([step, masquerades]);
  }
});

test('no other Service is looked at', () => {
  let looks = 0;
  /** Of a Service that is not to be looked at again. */
  const watched = (plan: ServicePlan): ServicePlan => ({
    ...plan,
    get ports() {
      looks += 1;
      return plan.ports;
    },
  });
  const all = Array.from({ length: 50 }, (_, number) => serviceOf(number, 3, number));
  const services = persistentMap(all.map(([key, plan]) => [key, watched(plan)] as const));
  const renderer = createRenderer(DEFAULTS);
  const before = ipv4(renderer.render(planWith(services)));
  looks = 0;
  const change = serviceOf(7, 2, 7);
  const now = ipv4(renderer.render(planWith(services.withChanges([change]))));
  // That Service as it was, in each family.
  expect(looks).toBe(2);
  const { chains, elements } = wantedSince(before, now);
  expect([...chains.keys()].map((name) => name.replace(/-.*\//, '-'))).toEqual(['service-http']);
  const named = [...elements].flatMap(([set, some]) => [...some.keys()].map((key) => [set, key]));
  expect(named.length).toBeLessThan(8);
});
