// SPDX-License-Identifier: Apache-2.0
// The iptables dataplane without a kernel: the rules that it has written, one difference after the other, give every
// client what the plan says.
import { IPTABLES } from '../../src/engines/capabilities.ts';
import type { Plan } from '../../src/plan/types.ts';
import { memoryIptables } from '../support/iptables/memory/dataplane.ts';
import { testConformance } from './conformance.ts';
import { answerOfRules } from './subjects/iptables-rules.ts';
import { driven } from './subjects/program-tables.ts';

testConformance('iptables', {
  capabilities: IPTABLES,
  open() {
    const rules = memoryIptables();
    const { sync, close } = driven(rules.dataplane);
    let current: Plan;
    return {
      async sync(plan) {
        current = plan;
        await sync(plan);
      },
      hasMartianGuard: true,
      answer: ({ packet }) => answerOfRules(rules, current, packet),
      close,
    };
  },
});
