// SPDX-License-Identifier: Apache-2.0
// A dataplane of rules, driven as the agent drives it, and asked by reading what it has written.
import type { Dataplane } from '../../../src/engines/dataplane.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../src/plan/types.ts';
import type { Answer, Subject } from '../conformance.ts';
import { driven } from './program-tables.ts';

export function drivenRules<Rules extends { readonly dataplane: Dataplane }>(
  rules: Rules,
  answerOf: (rules: Rules, plan: Plan, packet: Packet) => Answer,
): Subject {
  const { sync, close } = driven(rules.dataplane);
  let current: Plan;
  return {
    async sync(plan) {
      current = plan;
      await sync(plan);
    },
    hasMartianGuard: true,
    answer: ({ packet }) => answerOf(rules, current, packet),
    close,
  };
}
