// SPDX-License-Identifier: Apache-2.0
// Whether packets of Services would meet another verdict if eBPF translated them than behind the rules of kube-proxy. Pure.
import { type BaseChain, generalDrop, possibleDrop } from './chains.ts';
import * as iptables from './iptables.ts';
import * as nft from './nft.ts';
import {
  answers,
  anyNodePort,
  arrivals,
  type NodeFacts,
  type Question,
  requests,
} from './question.ts';
import type { Unread } from './unread.ts';

/** What the programs of the node print of its rules. */
export interface HostRules {
  /** Of iptables-save and its kin, by program: `ip6tables-nft`. */
  readonly saved: readonly { readonly program: string; readonly text: string }[];
  /** Of `nft -j list ruleset`. */
  readonly nft: unknown;
  /** What the kernel has, and no program of the node has printed. */
  readonly unread?: readonly Unread[];
}

export interface Obstacle {
  readonly kind: 'forward' | 'host-firewall';
  /** The chain and its rule or policy, as the program prints it. */
  readonly rule: string;
}

/** undefined: eBPF may translate packets. */
export const findObstacle = (rules: HostRules, facts: NodeFacts): Obstacle | undefined =>
  forwardDrop(rules, facts) ?? arrivalDrop(rules, arrivals(facts));

/** What is in the way of Services that are not known: of pods anywhere, at any NodePort. */
export const possibleObstacles = (rules: HostRules): readonly Obstacle[] =>
  [forwardDrop(rules, { podRanges: [], frontends: [] }), arrivalDrop(rules, anyNodePort)].filter(
    (one) => one !== undefined,
  );

function forwardDrop(rules: HostRules, facts: NodeFacts): Obstacle | undefined {
  const rule = [requests(facts), answers(facts)]
    .flatMap((question) => forwardChains(rules, question))
    .map(generalDrop)
    .find((one) => one !== undefined);
  return rule === undefined ? undefined : { kind: 'forward', rule };
}

function arrivalDrop(rules: HostRules, question: Question): Obstacle | undefined {
  const rule = arrivalChains(rules, question)
    .map(possibleDrop)
    .find((one) => one !== undefined);
  return rule === undefined ? undefined : { kind: 'host-firewall', rule };
}

/** Families of nf_tables whose tables of iptables-nft have been printed. */
export const savedFamilies = (saved: HostRules['saved']): ReadonlySet<string> =>
  new Set(
    saved
      .filter(({ program }) => program.endsWith('-nft'))
      .map(({ program }) => (program.startsWith('ip6') ? 'ip6' : 'ip')),
  );

const forwardChains = (rules: HostRules, question: Question): readonly BaseChain[] => [
  ...rules.saved.flatMap(({ program, text }) =>
    iptables.chainsOf(text, { hook: 'FORWARD', tables: ['filter', 'mangle'], program }, question),
  ),
  ...nft.chainsOf(rules.nft, 'forward', question, savedFamilies(rules.saved)),
];

/** Before the tables in which addresses are translated. */
const arrivalChains = (rules: HostRules, question: Question): readonly BaseChain[] => [
  ...rules.saved.flatMap(({ program, text }) =>
    iptables.chainsOf(text, { hook: 'PREROUTING', tables: ['raw', 'mangle'], program }, question),
  ),
  ...nft.chainsOf(rules.nft, 'prerouting', question, savedFamilies(rules.saved)),
];

const ANYTHING: Question = {
  source: () => 'some',
  destination: () => 'some',
  destinationPorts: () => 'some',
  inInterface: () => 'some',
  isDestinationLocal: 'some',
  state: 'NEW',
};

/** Whether a filter may drop requests to a frontend that is not there yet. */
export const mayFilterArrivals = (rules: HostRules): boolean =>
  arrivalChains(rules, ANYTHING).some((chain) => possibleDrop(chain) !== undefined);

/** Why packets are served by rules, in one sentence. */
export const obstacleText = ({ kind, rule }: Obstacle): string =>
  kind === 'forward'
    ? `packets that eBPF has translated would be dropped by ${rule}`
    : `a filter before the translation of addresses must see the address that clients use: ${rule}`;
