// SPDX-License-Identifier: Apache-2.0
// Rules of `ip rule` that the CNI of a cloud, or an administrator, has added. Pure.
import type { OwnFacts, PolicyRule } from '../facts.ts';
import type { Finding } from '../finding.ts';
import { listed } from './listed.ts';

/** One finding for each family. */
export function policyRoutingFindings(
  rules: readonly PolicyRule[],
  { packets }: Pick<OwnFacts, 'packets'>,
): readonly Finding[] {
  return (['IPv4', 'IPv6'] as const).flatMap((family): readonly Finding[] => {
    const own = rules.filter((rule) => rule.family === family);
    if (own.length === 0) return [];
    const texts = own.map(({ priority, text }) => `${priority}: ${text}`);
    return [
      {
        topic: 'policy-routing',
        what: `${family}: ip rule has ${listed(texts)}`,
        ...effectOf(packets),
        breaksServices: false,
      },
    ];
  });
}

function effectOf(packets: OwnFacts['packets']): Pick<Finding, 'consequence' | 'advice'> {
  if (packets === 'iptables' || packets === 'none')
    return {
      consequence:
        'an answer follows them: one of a pod that a rule names may leave by another device than its request came in by',
      advice: 'keep the rules that your CNI writes into mangle for that (CONNMARK)',
    };
  return {
    consequence:
      'requests to endpoints follow them; by eBPF an answer leaves by the device that its request came in by',
  };
}
