// SPDX-License-Identifier: Apache-2.0
// Which two are compared: by their names on the command line, or the plan and the one proxy that the node has.
import { planSide } from '../../compare/sides/plan-side.ts';
import { rulesSide } from '../../compare/sides/rules-side.ts';
import type { NodeAddresses, Side } from '../../compare/sides/side.ts';
import { FairleadError } from '../../errors.ts';
import { type FoundRules, rulesInFile, rulesOnNode } from '../../instance/shadow/read-rules.ts';
import { FAMILIES, type Family } from '../../model/types.ts';
import type { Plan } from '../../plan/types.ts';

export const PLAN = 'plan';
/** `iptables` is whichever of them has rules. */
const ON_NODE = ['iptables', 'iptables-nft', 'iptables-legacy', 'nftables', 'ipvs'];
const OWN = [
  'fairlead-iptables',
  'fairlead-iptables-nft',
  'fairlead-iptables-legacy',
  'fairlead-nftables',
];
export const SIDE_NAMES: readonly string[] = [PLAN, ...ON_NODE, ...OWN];

export interface Pair {
  readonly family: Family;
  readonly sides: readonly [Side, Side];
  readonly node: NodeAddresses;
}

export interface Wanted {
  /** At most two. */
  readonly names: readonly string[];
  /** Read if a side is the plan, or `isMeasured`. */
  readonly plan: () => Promise<Plan>;
  /** Two sets of rules are each compared with the plan as well: it knows the Services, and why modes of kube-proxy differ. */
  readonly isMeasured: boolean;
  readonly addresses: (family: Family) => NodeAddresses;
  /** The rules of the node; absent: as this kernel has them. */
  readonly onNode?: () => readonly FoundRules[];
}

/** One for each family that both have. Throws BAD_OPTION, NOT_FOUND. */
export async function pairsOf({
  names,
  plan,
  isMeasured,
  addresses,
  ...wanted
}: Wanted): Promise<readonly Pair[]> {
  const isOnNode = (name: string): boolean => SIDE_NAMES.includes(name) && name !== PLAN;
  const needsNode = names.length < 2 || names.some(isOnNode);
  const readNode = wanted.onNode ?? (() => rulesOnNode(FAMILIES));
  const onNode = needsNode ? await readNode() : [];
  const [left = PLAN, right = otherThan(left, onNode)] = names;
  if (left === right)
    throw new FairleadError('BAD_OPTION', `${left} is the same as ${right}: name two others`);
  const read = left === PLAN || right === PLAN || isMeasured ? await plan() : undefined;
  const inFiles = new Map<string, readonly FoundRules[]>();
  const sideOf = (name: string, family: Family, node: NodeAddresses): Side | undefined => {
    if (name === PLAN) return read && planSide(read, family, node);
    const rules = isOnNode(name) ? onNode : (inFiles.get(name) ?? rulesInFile(name, FAMILIES));
    if (!isOnNode(name)) inFiles.set(name, rules);
    const found = rules.find((one) => one.family === family && isMeant(one, name));
    const side = found && rulesSide(found, found.program, node);
    // Rules know no Services.
    return side && read ? { ...side, claimAt: planSide(read, family, node).claimAt } : side;
  };
  const pairs = FAMILIES.flatMap((family): readonly Pair[] => {
    const node = addresses(family);
    const [one, other] = [sideOf(left, family, node), sideOf(right, family, node)];
    return one === undefined || other === undefined ? [] : [{ family, node, sides: [one, other] }];
  });
  if (pairs.length > 0) return pairs;
  const rulesOf = (name: string): readonly FoundRules[] =>
    inFiles.get(name) ?? onNode.filter((one) => isMeant(one, name));
  throw new FairleadError('NOT_FOUND', apartText([left, right], rulesOf, onNode));
}

/** Why two sides have no family in common. */
function apartText(
  names: readonly string[],
  rulesOf: (name: string) => readonly FoundRules[],
  onNode: readonly FoundRules[],
): string {
  const missing = names.find((name) => name !== PLAN && rulesOf(name).length === 0);
  if (missing !== undefined) {
    const known = [...new Set(onNode.map(({ name }) => name))].join(', ') || 'no rules of a proxy';
    return `this node has no rules of ${missing}: it has ${known}`;
  }
  const families = names
    .filter((name) => name !== PLAN)
    .map((name) => `${name} has rules of ${rulesOf(name).map(({ family }) => family)}`);
  return `${families.join(', ')}, and no IP family is in both: save the other one with \`iptables-save\` or \`ip6tables-save\``;
}

const isMeant = ({ name }: FoundRules, wanted: string): boolean =>
  name === wanted || name.replace(/-(nft|legacy)$/, '') === wanted;

/** The only proxy, or kube-proxy's if fairlead has rules as well. Throws NOT_FOUND. */
function otherThan(left: string, onNode: readonly FoundRules[]): string {
  const names = [...new Set(onNode.map(({ name }) => name))].filter((name) => name !== left);
  const [only, ...others] = names.filter((name) => !name.startsWith('fairlead-'));
  if (only !== undefined && others.length === 0) return only;
  const [own] = names;
  if (only === undefined && own !== undefined) return own;
  throw only === undefined
    ? new FairleadError(
        'NOT_FOUND',
        'this node has no rules of a proxy in iptables, nftables or ipvs: name files with rules, or run it where kube-proxy runs',
      )
    : new FairleadError('BAD_OPTION', `this node has rules of ${names.join(', ')}: name one`);
}
