// SPDX-License-Identifier: Apache-2.0
// Which clients of a frontend get a backend, and what the others get: the same for every engine that writes rules.
import type { Frontend, ServicePortPlan, TrafficRule } from '../../plan/types.ts';

export type TrafficRules = Frontend['rules'];

/** The rule's set has a backend. */
export const isFilled = (port: ServicePortPlan, { scope }: Pick<TrafficRule, 'scope'>): boolean =>
  port[scope].length > 0;

/** Clients of some position get a backend. */
export const isServed = (port: ServicePortPlan, { pod, host, outside }: TrafficRules): boolean =>
  [pod, host, outside].some((rule) => isFilled(port, rule));

/** What becomes of clients without a backend, who are those that rules have not translated; undefined if there are none. */
export const emptyVerdict = (
  port: ServicePortPlan,
  { rules: { pod, host, outside } }: Pick<Frontend, 'rules'>,
): TrafficRule['whenEmpty'] | undefined =>
  [outside, host, pod].find((rule) => !isFilled(port, rule))?.whenEmpty;
