// SPDX-License-Identifier: Apache-2.0
// KUBE-EXT-: which set the clients of an external address or NodePort get, and who of them is masqueraded.
// KUBE-FW-: who may use an address or NodePort with source ranges. Both in nat.

import type { SourceFilter } from '../../../model/types.ts';
import type { ServicePortPlan, TrafficRule } from '../../../plan/types.ts';
import type { ServiceChains } from '../../rules/chains.ts';
import { isFilled, type TrafficRules } from '../../rules/served.ts';
import { servicePortName } from '../rules/names.ts';
import type { Rule, Target } from '../rules/types.ts';
import type { ServiceContext } from './settings.ts';
import { fromPods, jumpTo, MASQUERADE } from './targets.ts';

const areEqual = (one: TrafficRule, other: TrafficRule): boolean =>
  one.scope === other.scope && one.masquerade === other.masquerade;

/** Clients of one position: how they are matched, and what comments call them. */
interface Clients {
  readonly rule: TrafficRule;
  readonly match: Rule;
  readonly masqueraded: string;
  readonly routed: string | undefined;
}

/** Of KUBE-EXT-. Positions are matched in their order: pods, processes of the node, everyone else. */
export const externalRules = (
  chains: ServiceChains,
  port: ServicePortPlan,
  rules: TrafficRules,
  context: ServiceContext,
): readonly Rule[] =>
  clientsOf(rules, servicePortName(port), context).flatMap(
    ({ rule, match, masqueraded, routed }): readonly Rule[] => {
      const comment = routed === undefined ? {} : { comment: routed };
      const target = jumpTo(chains[rule.scope]);
      return [
        ...(rule.masquerade ? [{ comment: masqueraded, ...match, target: MASQUERADE }] : []),
        ...(isFilled(port, rule) ? [{ ...comment, ...match, target }] : []),
      ];
    },
  );

function clientsOf(
  { pod, host, outside }: TrafficRules,
  owner: string,
  { detector }: ServiceContext,
): readonly Clients[] {
  const destinations = `for ${owner} external destinations`;
  const everyone: Clients = {
    rule: outside,
    match: {},
    masqueraded: `masquerade traffic ${destinations}`,
    routed: undefined,
  };
  if (areEqual(pod, outside) && areEqual(host, outside)) return [everyone];
  const processes: Clients = {
    rule: host,
    match: { isSourceLocal: true },
    masqueraded: `masquerade LOCAL traffic ${destinations}`,
    routed: `route LOCAL traffic ${destinations}`,
  };
  if (detector === undefined) return [processes, everyone];
  const pods: Clients = {
    rule: pod,
    match: fromPods(detector),
    masqueraded: `masquerade pod traffic ${destinations}`,
    routed: `pod traffic ${destinations}`,
  };
  return [pods, processes, everyone];
}

/**
 * Of KUBE-FW-. What it does not accept is not translated, and dropped by KUBE-PROXY-FIREWALL, as the rule without a
 * target says.
 */
export function sourceRules(
  chains: ServiceChains,
  port: ServicePortPlan,
  { policy, ranges }: SourceFilter,
): readonly Rule[] {
  const owner = servicePortName(port);
  const target = jumpTo(chains.external);
  const matching = (comment: string, matched: Target): readonly Rule[] =>
    ranges.map((prefix) => ({ comment, source: { prefix }, target: matched }));
  if (policy === 'deny') {
    const comment = `${owner} denied, will be dropped by KUBE-PROXY-FIREWALL`;
    return [...matching(comment, jumpTo('RETURN')), { comment: `${owner} other traffic`, target }];
  }
  return [
    ...matching(`${owner} loadbalancer IP`, target),
    { comment: `other traffic to ${owner} will be dropped by KUBE-PROXY-FIREWALL` },
  ];
}
