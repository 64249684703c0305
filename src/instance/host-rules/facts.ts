// SPDX-License-Identifier: Apache-2.0
// What the filters of a node are compared with: the frontends that clients outside reach, and the ranges of pods. Pure.
import type { NodeFacts } from '../../on-node/netfilter/question.ts';
import type { Plan, ServiceKey } from '../../plan/types.ts';

/** @param localAddresses of the node: a NodePort is at each of them @param keys of these Services alone */
export function factsOf(
  plan: Plan,
  localAddresses: readonly string[],
  keys: Iterable<ServiceKey> = plan.services.keys(),
): NodeFacts {
  const frontends = [...keys]
    .flatMap((key) => plan.services.get(key) ?? [])
    .flatMap(({ ports }) => ports)
    .flatMap((port) => port.frontends)
    .filter(({ kind }) => kind !== 'ClusterIP')
    .flatMap(({ address, port }) =>
      (address === undefined ? localAddresses : [address]).map((one) => ({ address: one, port })),
    );
  return { podRanges: podRangesOf(plan), frontends };
}

const podRangesOf = ({ detector, node }: Plan): readonly string[] => [
  ...Object.values(detector).flatMap((one) => (one?.kind === 'cidr' ? [one.cidr] : [])),
  ...node.podCidrs,
];
