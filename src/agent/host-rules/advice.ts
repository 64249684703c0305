// SPDX-License-Identifier: Apache-2.0
// What a person is to do where a filter affects Services and rules cannot serve packets. Pure.
import type { Finding } from '../../on-node/finding.ts';
import type { Obstacle } from '../../on-node/netfilter/obstacle.ts';

/** One sentence that names the chain, and what to add or to choose. */
export const adviceOf = ({ kind, rule }: Obstacle): string =>
  kind === 'forward'
    ? `packets of Services to pods are dropped by ${rule}: accept them there, for example \`iptables -I FORWARD -d PODS -j ACCEPT\` and \`iptables -I FORWARD -s PODS -j ACCEPT\` with the range of the pods, or let rules serve packets with --engine auto and --devices auto`
    : `eBPF translates packets of Services before ${rule}, which does not match them any more: let rules serve packets with --engine auto and --devices auto, or close the port with spec.loadBalancerSourceRanges or the firewall of the network`;

/** @param isServed rules serve packets because of it */
export const findingOf = (obstacle: Obstacle, isServed: boolean): Finding => {
  const { kind: topic, rule: what } = obstacle;
  if (isServed) {
    const consequence =
      'rules serve packets of Services behind it, and eBPF the sockets of this node';
    return { topic, what, consequence, breaksServices: false };
  }
  const consequence =
    topic === 'forward'
      ? 'packets of Services to pods are dropped'
      : 'it does not match packets of Services, which eBPF translates before it: what it closes is open';
  return { topic, what, consequence, advice: adviceOf(obstacle), breaksServices: true };
};
