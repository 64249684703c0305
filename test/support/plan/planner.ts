// SPDX-License-Identifier: Apache-2.0
// A planner that also says what each call has changed: the Services whose plan is another object than before.
import { compareText } from '../../../src/lib/names.ts';
import { differences } from '../../../src/lib/persistent/map.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import { createPlanner as createReal, type Planner } from '../../../src/plan/planner.ts';
import type { Plan, ServiceKey } from '../../../src/plan/types.ts';

export interface PlanChange {
  readonly plan: Plan;
  /** The Services before. */
  readonly previous: Plan['services'];
  /** A key that is absent from `plan.services` is gone. */
  readonly changed: readonly ServiceKey[];
}

export interface TellingPlanner extends Omit<Planner, 'apply'> {
  apply(changes: readonly ObjectChange[]): PlanChange;
}

export function createPlanner(...parts: Parameters<typeof createReal>): TellingPlanner {
  const planner = createReal(...parts);
  return {
    ...planner,
    apply(changes) {
      const previous = planner.current().services;
      const plan = planner.apply(changes);
      const changed = differences(previous, plan.services).toSorted(compareText);
      return { plan, previous, changed };
    },
  };
}
