// SPDX-License-Identifier: Apache-2.0
// The law of this folder: for every client and destination the table does what the plan says. `fairlead compare` proves it class
// by class; each table is written over the one before it.
import { expect } from 'vitest';
import { answerText } from '../../../../../src/compare/answer.ts';
import type { Difference } from '../../../../../src/compare/compare.ts';
import { ELSEWHERE } from '../../../../../src/compare/sides/plan-side.ts';
import { isLoopback } from '../../../../../src/lib/ip.ts';
import { FAMILIES } from '../../../../../src/model/types.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import { driven } from '../../../../conformance/subjects/program-tables.ts';
import { memoryNftables } from '../../../../support/nftables/memory/dataplane.ts';
import { comparedWith, sideOf } from '../../../compare/recorded.ts';

/** What is told as a limit of the engine (src/engines/limitations.ts), and nothing else. */
const LIMITS: Readonly<Record<string, (found: Difference) => boolean>> = {
  LOOPBACK: ({ destination, answers: [, table] }) =>
    isLoopback(destination.address) && table.verdict === 'none',
  HAIRPIN: ({ part, answers: [plan] }) =>
    part === 'hairpin' && plan.because.some(({ text }) => text === ELSEWHERE),
};

export function startRules() {
  const rules = memoryNftables();
  const { sync, close } = driven(rules.dataplane);
  let classes = 0;
  return {
    close,
    classes: () => classes,
    async expectAgreement({ services, ...rest }: Plan): Promise<void> {
      // The planner's own map changes with later steps.
      const plan = { ...rest, services: new Map(services) };
      await sync(plan);
      for (const family of FAMILIES) {
        const text = rules[family].text();
        const compared = comparedWith(plan, sideOf('nftables', text, plan, family), family);
        expect(compared.unread).toEqual([]);
        const others = compared.differences.filter((one) => !isTold(one));
        expect(others.map(textOf)).toEqual([]);
        classes += compared.classes;
      }
    },
  };
}

const isTold = (found: Difference): boolean => Object.values(LIMITS).some((holds) => holds(found));

/** `hairpin at 10.1.1.1:30080/TCP of 10.1.2.5: …` */
function textOf({ destination, clients, part, answers, reason }: Difference): string {
  const { address, port, protocol } = destination;
  const from = clients.map(({ source, device = 'this node' }) => `${source} by ${device}`);
  const told = answers.map(answerText).join(' | ');
  return `${part} at ${address}:${port}/${protocol} of ${from.join()}: ${told} (${reason ?? 'no known reason'})`;
}
