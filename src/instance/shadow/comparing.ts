// SPDX-License-Identifier: Apache-2.0
// The plan and the rules of another proxy, compared in steps between which the agent does its other work.
import { compareInSteps } from '../../compare/compare.ts';
import { reasonsOf } from '../../compare/known.ts';
import { isUnexplained } from '../../compare/proof.ts';
import { planSide } from '../../compare/sides/plan-side.ts';
import { rulesSide } from '../../compare/sides/rules-side.ts';
import { familyOf } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import type { Plan } from '../../plan/types.ts';
import type { Compared } from './judged.ts';
import type { FoundRules } from './read-rules.ts';

export interface Plans {
  readonly plan: Plan;
  /** Of the same objects without annotations of fairlead, as the other proxy sees them. */
  readonly plain: Plan;
}

/** @param addresses of this node */
export function* comparedInSteps(
  all: readonly FoundRules[],
  { plan, plain }: Plans,
  addresses: readonly string[],
): Generator<void, readonly Compared[]> {
  const compared: Compared[] = [];
  for (const rules of all) {
    const { family, program } = rules;
    const node = { own: addresses.filter((address) => familyOf(address) === family) };
    const sides = [planSide(plan, family, node), rulesSide(rules, program, node)] as const;
    yield;
    const reasonOf = reasonsOf({ sides, node, plain: planSide(plain, family, node) });
    const judge = { reasonOf, isKept: isUnexplained };
    compared.push({ rules, comparison: yield* compareInSteps({ family, sides, node }, judge) });
  }
  return compared;
}

/** The rules of one proxy that is not fairlead, or why there are none to compare with. */
export type Chosen = { readonly rules: readonly FoundRules[] } | { readonly problem: string };

export function chosenOf(found: readonly FoundRules[], families: Iterable<Family>): Chosen {
  const rules = found.filter(({ name }) => !name.startsWith('fairlead-'));
  const [own] = found.filter((one) => !rules.includes(one));
  const [name, ...others] = new Set(rules.map((one) => one.name));
  if (name === undefined) {
    const problem =
      'this node has no rules of kube-proxy to compare with: start kube-proxy in mode iptables, nftables or ipvs';
    return { problem };
  }
  if (own !== undefined) {
    const problem = `${own.name} still has rules on this node, from an agent that has served: run \`fairlead cleanup\`, or the chart with mode=remove, and then --shadow`;
    return { problem };
  }
  const missing = [...families].filter((family) => !rules.some((one) => one.family === family));
  if (others.length === 0 && missing.length > 0) {
    const problem = `Services have ${missing.join(' and ')}, and kube-proxy has no rules of it on this node, or they could not be listed: they cannot be compared`;
    return { problem };
  }
  if (others.length === 0) return { rules };
  const names = [name, ...others].join(' and ');
  const problem = `this node has rules of kube-proxy in ${names}, and those of one mode alone can be compared: remove those that kube-proxy has left when its mode was changed`;
  return { problem };
}

/** Of the frontends that the plan has. */
export function familiesOf({ services }: Plan): ReadonlySet<Family> {
  const found = new Set<Family>();
  for (const { ports } of services.values())
    for (const { family, frontends } of ports) if (frontends.length > 0) found.add(family);
  return found;
}
