// SPDX-License-Identifier: Apache-2.0
// Facts of a node -> findings, topic by topic. Pure.
import { couldNotTell } from './could-not-tell.ts';
import type { NodeFacts, OwnFacts, Reading } from './facts.ts';
import type { Finding, Topic } from './finding.ts';
import { cniFindings, meshFindings } from './topics/cni.ts';
import { dnsCacheFindings } from './topics/dns-cache.ts';
import { markFindings } from './topics/marks.ts';
import { namelessFindings, otherProgramFindings } from './topics/other-programs.ts';
import { policyRoutingFindings } from './topics/policy-routing.ts';
import { reversePathFindings } from './topics/rp-filter.ts';
import { TOPIC_NAMES } from './topics.ts';

/** In the order of the topics. @param more those of readers that are on their own, such as the netfilter's */
export function findingsOf(
  facts: NodeFacts,
  own: OwnFacts,
  more: readonly Finding[] = [],
): readonly Finding[] {
  const { rules, markTargets, cni, reversePath, programs, cgroupPrograms, addresses } = facts;
  const hasRules = 'value' in rules && rules.value.length > 0;
  const found = [
    ...more,
    ...of('policy-routing', rules, (value) => policyRoutingFindings(value, own)),
    ...markFindings(rules, markTargets, own),
    ...of('cni', cni, cniFindings),
    ...of('mesh', cni, (value) => meshFindings(value, own)),
    ...of('dns-cache', addresses, (value) => dnsCacheFindings(value, own)),
    ...of('rp-filter', reversePath, (value) => reversePathFindings(value, { ...own, hasRules })),
    ...of('other-programs', programs, otherProgramFindings),
    ...of('other-programs', cgroupPrograms, otherProgramFindings),
    ...namelessFindings(
      [programs, cgroupPrograms].flatMap((one) => ('value' in one ? one.value : [])),
    ),
  ];
  return TOPIC_NAMES.flatMap((name) => found.filter(({ topic }) => topic === name));
}

function of<T>(
  topic: Topic,
  reading: Reading<T>,
  findings: (value: T) => readonly Finding[],
): readonly Finding[] {
  return 'value' in reading ? findings(reading.value) : [couldNotTell(topic, reading.unread)];
}
