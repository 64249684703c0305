// SPDX-License-Identifier: Apache-2.0
// Which clients of a frontend get a backend.
import type { Frontend, ServicePortPlan, TrafficRule } from '../../../plan/types.ts';

export type TrafficRules = Frontend['rules'];

/** The rule's set has a backend. */
export const isFilled = (port: ServicePortPlan, { scope }: Pick<TrafficRule, 'scope'>): boolean =>
  port[scope].length > 0;

/** Clients of some position get a backend. */
export const isServed = (port: ServicePortPlan, { pod, host, outside }: TrafficRules): boolean =>
  [pod, host, outside].some((rule) => isFilled(port, rule));
