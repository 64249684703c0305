// SPDX-License-Identifier: Apache-2.0
// Why two sides answer differently, where that is known and documented (docs/semantics.md, "Where fairlead differs from
// kube-proxy"). What has no reason here is a defect of one of them, or rules that are not up to date.
import { isLoopback } from '../lib/ip.ts';
import { type Answer, differingPart, type Part } from './answer.ts';
import type { Difference } from './compare.ts';
import { ELSEWHERE, NO_ENDPOINTS, NODE_PROCESS, SOURCES, UNKNOWN_PORT } from './sides/plan-side.ts';
import type { Claim, NodeAddresses, Side, SideKind } from './sides/side.ts';

export interface KnownDifference {
  readonly name: string;
  /** What the rules do, and what the plan says. */
  readonly rules: string;
  readonly plan: string;
  readonly modes: readonly SideKind[];
  readonly holds: (found: Seen) => boolean;
}

/** A difference between the plan and rules, whichever stands first. */
export interface Seen extends Difference {
  readonly plan: Answer;
  readonly rules: Answer;
  readonly isLocal: (address: string) => boolean;
  /** kube-proxy's set of addresses for NodePorts has it. */
  readonly isNamed: (address: string) => boolean;
}

const IPTABLES: readonly SideKind[] = ['iptables'];
const NFTABLES: readonly SideKind[] = ['nftables'];
const IPVS: readonly SideKind[] = ['ipvs'];
const RULES: readonly SideKind[] = ['iptables', 'nftables'];
const ALL: readonly SideKind[] = ['iptables', 'nftables', 'ipvs'];

const isServed = ({ verdict }: Answer): boolean => verdict === 'forward' || verdict === 'reject';
const says = ({ because }: Answer, words: string): boolean =>
  because.some(({ text }) => text.includes(words));
const isByRanges = ({ because }: Answer): boolean => because.some(({ text }) => text === SOURCES);
/** A ClusterIP without endpoints is refused by rules, too. */
const isOfUnknownPort = ({ because }: Answer): boolean =>
  because.some(({ text }) => text.endsWith(UNKNOWN_PORT));

/** Other fields, such as ports and addresses, may change all parts. */
const PARTS: readonly (readonly [RegExp, Part])[] = [
  [/sourceRanges|source-ranges/i, 'verdict'],
  [/sessionAffinity/i, 'affinity'],
];
const mayChange = (field: string, part: Part): boolean =>
  PARTS.every(([pattern, only]) => !pattern.test(field) || only === part);
/** Among backends, what becomes of packets that none of them gets. */
const VERDICT = /^(?:drop|reject|none)$/;
/** Who answers is an endpoint of a Service that asks for the destination. */
const isOfAskers = (claim: Claim | undefined, { backends }: Answer): boolean =>
  backends.every(({ text }) => VERDICT.test(text) || claim?.endpoints.has(text) === true);
/** What these say has no effect at a ClusterIP. */
const OF_OUTSIDE = /externalIPs|loadBalancer|source-ranges/i;

/** The first one that holds is the reason. */
export const KNOWN: readonly KnownDifference[] = [
  {
    name: 'conflict-undefined',
    rules: 'if two Services ask for one address or port, the order of rules decides',
    plan: 'the older Service gets it',
    modes: ALL,
    // Whichever Service gets it, somebody answers or drops, but for what the node sends to one without endpoints; and no
    // endpoint of a third Service gets it.
    holds: ({ claim, rules, clients }) =>
      claim?.isContested === true &&
      isOfAskers(claim, rules) &&
      (rules.verdict !== 'none' || clients.every(({ device }) => device === undefined)),
  },
  {
    name: 'node-process',
    rules: 'the Service gets what is for an address of the node, though a process listens there',
    plan: 'the process gets it',
    modes: ALL,
    holds: ({ plan }) => plan.verdict === 'none' && says(plan, NODE_PROCESS),
  },
  {
    name: 'neighbour-reaches-loopback',
    rules: 'a neighbour reaches NodePorts with packets to 127.0.0.1',
    plan: 'drops packets to a loopback address that come by a device',
    modes: RULES,
    holds: ({ destination, plan, rules, clients }) =>
      isLoopback(destination.address) &&
      clients.every(({ device }) => device !== undefined) &&
      plan.verdict === 'drop' &&
      rules.verdict === 'forward',
  },
  {
    name: 'no-loopback-node-ports',
    rules:
      'NodePorts do not answer at loopback addresses, or with KEP-6032 (alpha) at 127.0.0.1 by TCP alone',
    plan: 'NodePorts at 127.0.0.1 answer processes of the node; with the nftables engine nobody',
    modes: ALL,
    holds: ({ destination, plan, rules }) =>
      isLoopback(destination.address) &&
      plan.verdict !== 'none' &&
      (rules.verdict === 'none' ||
        rules.verdict === 'reject' ||
        says(rules, 'localnet connections')),
  },
  {
    name: 'loopback6-node-ports',
    rules: 'NodePorts answer at [::1], with the feature gate of KEP-6032',
    plan: 'NodePorts do not answer at [::1]',
    modes: RULES,
    holds: ({ destination, plan, rules }) =>
      destination.address === '::1' && plan.verdict === 'none' && rules.verdict === 'forward',
  },
  {
    name: 'martian-guard',
    rules: 'packets of the node from another address to a loopback address are dropped',
    plan: 'the kernel decides',
    modes: IPTABLES,
    holds: ({ destination, plan, rules }) =>
      isLoopback(destination.address) &&
      plan.verdict !== 'forward' &&
      rules.verdict === 'drop' &&
      says(rules, 'localnet connections'),
  },
  {
    name: 'unknown-port-passes',
    rules: 'a packet to a port that a ClusterIP does not have follows the routes of the node',
    plan: 'refuses it',
    modes: IPTABLES,
    holds: ({ plan, rules }) =>
      plan.verdict === 'reject' && rules.verdict === 'none' && isOfUnknownPort(plan),
  },
  {
    name: 'unallocated-cluster-ip',
    rules: 'packets to addresses of the ServiceCIDR that no Service has are dropped',
    plan: 'leaves them to the routes of the node',
    modes: NFTABLES,
    holds: ({ plan, rules }) =>
      plan.verdict === 'none' &&
      rules.verdict === 'drop' &&
      rules.because.at(-1)?.text.includes('unallocated ClusterIPs') === true,
  },
  {
    name: 'host-passes-without-endpoints',
    rules: 'packets of the node to an external address without endpoints follow the routes',
    plan: 'refuses them',
    modes: IPTABLES,
    holds: ({ plan, rules, clients }) =>
      plan.verdict === 'reject' &&
      rules.verdict === 'none' &&
      says(plan, NO_ENDPOINTS) &&
      !says(plan, ': ClusterIP') &&
      clients.every(({ device }) => device === undefined),
  },
  {
    name: 'refusals-by-prefix',
    rules: 'a NodePort without endpoints is refused at every address of the node',
    plan: 'refuses it only where NodePorts answer',
    modes: IPTABLES,
    holds: ({ plan, rules, isLocal, destination }) =>
      plan.verdict === 'none' && rules.verdict === 'reject' && isLocal(destination.address),
  },
  {
    name: 'node-ports-at-primary-address',
    rules: 'without nodePortAddresses, NodePorts answer at the primary address of the node alone',
    plan: 'NodePorts answer at every address of the node',
    modes: NFTABLES,
    holds: ({ plan, rules, isLocal, isNamed, destination }) =>
      plan.verdict !== 'none' &&
      rules.verdict === 'none' &&
      isLocal(destination.address) &&
      !isNamed(destination.address),
  },
  {
    name: 'ranges-need-endpoints',
    rules: 'source ranges of a Service without endpoints have no effect',
    plan: 'drops clients outside the ranges',
    modes: RULES,
    holds: ({ plan, rules }) =>
      isByRanges(plan) && says(plan, NO_ENDPOINTS) && rules.verdict !== 'forward',
  },
  {
    name: 'unreadable-range-ignored',
    rules: 'a source range that cannot be read is ignored; if none is left, everybody is admitted',
    plan: 'the range admits nobody, and is reported',
    modes: ALL,
    holds: ({ plan, rules, claim }) =>
      isByRanges(plan) &&
      isServed(rules) &&
      claim?.rejected.some((field) => /sourceRanges|source-ranges/i.test(field)) === true,
  },
  {
    name: 'external-ip-bypasses-ranges',
    rules: 'source ranges have no effect on a load balancer address that is also an external IP',
    plan: 'source ranges have effect there',
    modes: IPTABLES,
    holds: ({ plan, rules }) => isByRanges(plan) && isServed(rules) && says(rules, 'external IP'),
  },
  {
    name: 'rejected-field',
    rules: 'a field that the API server would refuse counts in part',
    plan: 'rejects the field, and reports it',
    modes: ALL,
    holds: ({ claim, part, plan }) =>
      claim?.rejected.some(
        (field) => mayChange(field, part) && !(OF_OUTSIDE.test(field) && says(plan, ': ClusterIP')),
      ) === true,
  },
  {
    name: 'hairpin-of-another-node',
    rules: 'a backend of another node that asks through this one sees its own address',
    plan: 'the backend sees the address of this node',
    modes: ['nftables', 'ipvs'],
    holds: ({ part, plan }) => part === 'hairpin' && says(plan, ELSEWHERE),
  },
  {
    name: 'local-falls-back',
    rules: 'endpoints of other nodes serve a policy Local that has none on this node',
    plan: 'drops',
    modes: IPVS,
    holds: ({ plan, rules, claim }) =>
      plan.verdict === 'drop' &&
      says(plan, NO_ENDPOINTS) &&
      rules.verdict === 'forward' &&
      isOfAskers(claim, rules),
  },
  {
    name: 'local-keeps-clients',
    rules:
      'with external policy Local, endpoints of other nodes see the address of the client, too',
    plan: 'they see the address of this node',
    modes: IPVS,
    holds: ({ part, rules }) =>
      (part === 'masquerade' || part === 'hairpin') &&
      says(rules, '-LOCAL') &&
      rules.backends.every(({ masquerade }) => masquerade === false),
  },
  {
    name: 'service-address-as-source',
    rules: 'what a process of the node sends to a Service comes from the address of the Service',
    plan: 'it comes from the address of the device by which it leaves',
    modes: IPVS,
    // At a ClusterIP, the rules replace it whatever the address of the node is.
    holds: ({ part, rules, clients }) =>
      part === 'masquerade' &&
      clients.every(({ device }) => device === undefined) &&
      rules.backends.every(({ masquerade }) => masquerade === true),
  },
  {
    name: 'refuses-other-ports',
    rules: 'ports of external addresses that no Service has are refused',
    plan: 'leaves them to the routes of the node',
    modes: IPVS,
    holds: ({ plan, rules }) =>
      plan.verdict === 'none' && rules.verdict === 'reject' && says(rules, '-IPVS-IPS '),
  },
];

export const FOREIGN_RULE = 'foreign-rule';
export const ANNOTATION = 'fairlead-annotation';

export interface Judging {
  readonly sides: readonly [Side, Side];
  /** The plan of the same objects without annotations of fairlead; between two sets of rules, what both are measured by. */
  readonly plain: Side | undefined;
  readonly node: NodeAddresses;
}

export function reasonsOf(judging: Judging): (found: Difference) => string | undefined {
  const named = judging.sides.map((side) => new Set(side.nodePortAddresses()));
  return (found) => reasonOf(found, judging, named);
}

interface Measured {
  readonly plan: Answer;
  /** Of the side with this number. */
  readonly rules: Answer;
  readonly side: number;
  readonly part: Part;
}

/** undefined: nobody knows why. */
function reasonOf(
  found: Difference,
  judging: Judging,
  named: readonly ReadonlySet<string>[],
): string | undefined {
  const { sides, node, plain } = judging;
  if (found.answers.some(({ because }) => because.at(-1)?.isForeign === true)) return FOREIGN_RULE;
  const known = ({ plan, rules, side, part }: Measured): string | undefined => {
    const mode = sides[side]?.kind;
    const seen = {
      ...{ ...found, plan, rules, part },
      isLocal: (address: string) => isLoopback(address) || node.own.includes(address),
      isNamed: (address: string) => named[side]?.has(address) === true,
    };
    return KNOWN.find(({ modes, holds }) => mode && modes.includes(mode) && holds(seen))?.name;
  };
  const at = sides.findIndex(({ kind }) => kind === 'plan');
  if (at < 0) return reasonOfRules(found, plain, known);
  const [plan, rules] = [found.answers[at], found.answers[1 - at]];
  if (plan === undefined || rules === undefined) return undefined;
  const of = { rules, side: 1 - at };
  const [without] = plain?.answers(found.destination, found.clients) ?? [];
  const source = found.clients[0]?.source ?? '';
  if (without !== undefined && differingPart(plan, without, source) !== undefined) {
    // The rules must do what the objects without annotations say, or differ from that for a known reason.
    const part = differingPart(without, rules, source);
    if (part === undefined || known({ ...of, plan: without, part }) !== undefined)
      return ANNOTATION;
    return undefined;
  }
  return known({ ...of, plan, part: found.part });
}

/** Two modes of a proxy: each must do what the plan says, or something else for a known reason. */
function reasonOfRules(
  found: Difference,
  plan: Side | undefined,
  known: (one: Measured) => string | undefined,
): string | undefined {
  const names = new Set<string>();
  const wanted = plan?.answers(found.destination, found.clients) ?? [];
  for (const [index, { source }] of found.clients.entries()) {
    const answer = wanted[index];
    if (answer === undefined) return undefined;
    for (const [side, rules] of found.answers.entries()) {
      const part = differingPart(answer, rules, source);
      if (part === undefined) continue;
      const name = known({ plan: answer, rules, side, part });
      if (name === undefined) return undefined;
      names.add(name);
    }
  }
  return names.size === 0 ? undefined : [...names].sort().join(', ');
}
