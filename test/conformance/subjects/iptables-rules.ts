// SPDX-License-Identifier: Apache-2.0
// What a new connection gets from the rules of the iptables dataplane as iptables-save prints them: read back, and
// every way that its first packet may take traced through them.
import { FAMILIES } from '../../../src/model/types.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { hostOf, traced } from '../../support/iptables/agreement.ts';
import type { MemoryIptables } from '../../support/iptables/memory/dataplane.ts';
import { rulesetOf } from '../../support/iptables/ruleset.ts';
import { pathText, type Verdict, verdictOf } from '../../support/iptables/verdict.ts';
import type { Answer } from '../conformance.ts';

const VERDICTS: Readonly<
  Record<Exclude<Verdict['verdict'], 'mixed'>, Exclude<Answer['verdict'], 'mixed'>>
> = {
  'accept to backend': 'forward',
  reject: 'reject',
  drop: 'drop',
  unmatched: 'none',
};

export function answerOfRules(rules: MemoryIptables, plan: Plan, packet: Packet): Answer {
  const rulesets = FAMILIES.map((family) => rulesetOf(rules[family].text(), family));
  const { paths } = traced({ plan, rulesets }, packet);
  const { verdict, backends } = verdictOf(paths);
  if (verdict === 'mixed') {
    const text = paths.map((path) => pathText(path, 'IPv4')).join('\n');
    throw new Error(`not the same on all paths:\n${text}`);
  }
  const masqueraded = backends.filter(({ masquerade }) => masquerade === 'yes');
  // Besides the client itself, which is masqueraded whatever the traffic rule says.
  const isMasqueraded = masqueraded.some(({ backend }) => hostOf(backend) !== packet.source);
  return {
    verdict: VERDICTS[verdict],
    backends: backends.map(({ backend }) => backend),
    masquerade: isMasqueraded,
    keepingClient: isMasqueraded
      ? backends.filter(({ masquerade }) => masquerade !== 'yes').map(({ backend }) => backend)
      : [],
  };
}
