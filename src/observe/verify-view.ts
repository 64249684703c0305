// SPDX-License-Identifier: Apache-2.0
// What the agent has proven of its kernel: for `verify`.
import { type Differing, differingText } from './shadow-view.ts';

export interface VerifyView {
  /** The end of the last reading; undefined: there was none. */
  readonly verifiedAt?: string;
  readonly durationMs?: number;
  /** Of this process in that time. */
  readonly cpuMs?: number;
  /** Where the desired state was read: `API server`, or `plan` where there is none to ask. */
  readonly against: 'API server' | 'plan';
  readonly services: number;
  /** Since the Service that has waited longest was proven equal; undefined: nothing was read yet. */
  readonly oldestSeconds?: number;
  /** That the last reading has not proven equal. */
  readonly unproven: number;
  /** As two readings in a row have found them; sorted by Service. */
  readonly differing: readonly Differing[];
  /** Services of which two readings have found that they differ, since the start. */
  readonly found: number;
  /** Those of them that the next reading has proven equal. */
  readonly repaired: number;
  /** Those whose maps or rules are as planned, where the plan is wrong: for them the watches were asked to list anew. */
  readonly relisted: number;
  /** Why the last reading has proven nothing. */
  readonly problem?: string;
}

/** `12 Services are what the API server says`, `… 1 differs: default/web …`. */
export function verifyText(view: VerifyView): string {
  const { problem, verifiedAt, services, unproven, differing, against } = view;
  if (problem !== undefined) return `nothing is proven: ${problem}`;
  if (verifiedAt === undefined) return 'not verified yet';
  const says = against === 'plan' ? 'what the agent plans' : `what the ${against} says`;
  const equal = Math.max(0, services - unproven);
  return [
    `${equal} ${equal === 1 ? 'Service is' : 'Services are'} ${says}`,
    ...(differing.length === 0
      ? []
      : [
          `${differing.length} ${differing.length === 1 ? 'differs' : 'differ'}: ${differingText(differing)}`,
        ]),
    ...(view.found > 0 ? [`found to differ: ${view.found}, repaired: ${view.repaired}`] : []),
    ...(view.relisted > 0
      ? [`planned from objects that the API server does not have: ${view.relisted}, listed anew`]
      : []),
    ...(unproven > differing.length ? [`not proven yet: ${unproven - differing.length}`] : []),
  ].join('; ');
}
