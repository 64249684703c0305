// SPDX-License-Identifier: Apache-2.0
// What a person is to do where a filter affects Services and rules cannot serve packets. Pure.
import type { Finding } from '../../on-node/finding.ts';
import type { Obstacle } from '../../on-node/netfilter/obstacle.ts';

const LET_RULES_SERVE = 'let rules serve packets with --engine auto and --devices auto';

/** What to do, and no more: it stands behind what is there and its consequence. */
const adviceOf = ({ kind, rule }: Obstacle): string =>
  kind === 'forward'
    ? `add ${acceptingRules(rule).join(' and ')} with the range of the pods, or ${LET_RULES_SERVE}`
    : `${LET_RULES_SERVE}, or close the port with spec.loadBalancerSourceRanges or the firewall of the network`;

/** Of the program that has printed the chain, which is there. */
function acceptingRules(rule: string): readonly string[] {
  const [, chain, family, table] = /^nftables: chain (\S+) of table (\S+) (\S+): /.exec(rule) ?? [];
  if (chain !== undefined) {
    const address = family === 'ip6' ? 'ip6' : 'ip';
    return ['daddr', 'saddr'].map(
      (side) => `\`nft insert rule ${family} ${table} ${chain} ${address} ${side} PODS accept\``,
    );
  }
  const [, program = 'iptables', own = 'FORWARD', of = 'filter'] =
    /^(\S+): chain (\S+) of table (\S+): /.exec(rule) ?? [];
  const inTable = of === 'filter' ? '' : ` -t ${of}`;
  return ['-d', '-s'].map((side) => `\`${program}${inTable} -I ${own} ${side} PODS -j ACCEPT\``);
}

const consequenceOf = ({ kind }: Obstacle): string =>
  kind === 'forward'
    ? 'packets of Services to pods are dropped'
    : 'it does not match packets of Services, which eBPF translates before it: what it closes is open';

/** One sentence that names the chain, and what to add or to choose. */
export const problemOf = (obstacle: Obstacle): string =>
  `${obstacle.rule}: ${consequenceOf(obstacle)}; ${adviceOf(obstacle)}`;

/** @param isServed rules serve packets because of it */
export const findingOf = (obstacle: Obstacle, isServed: boolean): Finding => {
  const { kind: topic, rule: what } = obstacle;
  if (isServed) {
    const consequence =
      'rules serve packets of Services behind it, and eBPF the sockets of this node';
    return { topic, what, consequence, breaksServices: false };
  }
  const consequence = consequenceOf(obstacle);
  return { topic, what, consequence, advice: adviceOf(obstacle), breaksServices: true };
};
