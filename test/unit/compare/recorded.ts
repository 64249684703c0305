// SPDX-License-Identifier: Apache-2.0
// Rules that kube-proxy 1.37 has written for stories of test/conformance, and the plan of the same objects.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Comparison, compare } from '../../../src/compare/compare.ts';
import { reasonsOf } from '../../../src/compare/known.ts';
import { isUnexplained } from '../../../src/compare/proof.ts';
import { readIptables } from '../../../src/compare/rules/iptables.ts';
import { readNft } from '../../../src/compare/rules/nft/program.ts';
import type { Program } from '../../../src/compare/rules/types.ts';
import { planSide } from '../../../src/compare/sides/plan-side.ts';
import { rulesSide } from '../../../src/compare/sides/rules-side.ts';
import type { Side } from '../../../src/compare/sides/side.ts';
import { familyOf } from '../../../src/lib/ip.ts';
import type { Family } from '../../../src/model/types.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { storyRulesets } from '../../support/iptables/story-rulesets.ts';

export type Recorded = 'ranges' | 'affinity';
export type RecordedMode = 'iptables' | 'nftables';

const STORY: Readonly<Record<Recorded, string>> = {
  ranges: '102: source ranges hold for everyone',
  affinity: '120: affinity without a timeout lasts three hours',
};

export function recordedText(name: Recorded, mode: RecordedMode): string {
  const file = `${name}.${mode === 'nftables' ? 'nft' : 'save'}`;
  return readFileSync(join(import.meta.dirname, 'recorded', file), 'utf8');
}

export function planOf(name: Recorded): Plan {
  const found = storyRulesets().find(({ story }) => story.name === STORY[name]);
  if (found === undefined) throw new Error(`no story ${STORY[name]}`);
  return found.states.at(-1)!.plan;
}

export function programOf(mode: RecordedMode, text: string, family: Family = 'IPv4'): Program {
  if (mode === 'nftables') {
    const isProxys = (table: string): boolean => /^ip6? (kube-proxy|fairlead)$/.test(table);
    return readNft(family, text, { isProxys, isLeftOut: () => false });
  }
  const read = readIptables(family, text);
  if (!read.ok) throw new Error(read.reason);
  return read.value;
}

const ownOf = ({ node }: Plan, family: Family) => ({
  own: node.localAddresses.filter((address) => familyOf(address) === family),
});

/** The rules as a side of a node with the addresses that the plan knows. */
export const sideOf = (mode: RecordedMode, text: string, plan: Plan, family: Family = 'IPv4') =>
  rulesSide({ kind: mode, name: mode }, programOf(mode, text, family), ownOf(plan, family));

/** @param plain the plan of the same objects without annotations of fairlead */
export function comparedWith(
  plan: Plan,
  rules: Side,
  family: Family = 'IPv4',
  plain?: Plan,
): Comparison {
  const node = ownOf(plan, family);
  const sides = [planSide(plan, family, node), rules] as const;
  const without = plain && planSide(plain, family, node);
  const reasonOf = reasonsOf({ sides, node, plain: without });
  return compare({ family, node, sides }, { reasonOf, isKept: () => true });
}

export const unexplained = ({ differences }: Comparison): readonly string[] =>
  textsOf(differences.filter(isUnexplained));

/** `default/web 10.96.0.10:80/TCP: verdict` */
export const textsOf = (differences: Comparison['differences']): readonly string[] =>
  differences.map(({ claim, destination: { address, port, protocol }, part }) => {
    const service = claim?.service ?? 'no Service';
    return `${service} ${address}:${port}/${protocol}: ${part}`;
  });
