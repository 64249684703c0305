// SPDX-License-Identifier: Apache-2.0
// Changes that have arrived but are not programmed yet, and the trigger times of endpoint changes
// (kube-proxy's ServiceChangeTracker.PendingChanges and EndpointsChangeTracker.lastChangeTriggerTimes).
import { type TriggerTime, triggerTimeOf } from '../model/endpoints/trigger-time.ts';
import type { Kind, ObjectChange } from '../model/types.ts';

export interface PendingChanges {
  arrived(changes: readonly ObjectChange[]): void;
  /** Distinct objects that changed since the last `programmed`. */
  count(kind: Kind): number;
  /** All changes are programmed: returns their trigger times. */
  programmed(): readonly TriggerTime[];
}

/** @param startedMs start of this process: older changes are not measured */
export function createPendingChanges(startedMs: number): PendingChanges {
  const pending = new Map<Kind, Set<string>>();
  let triggers: TriggerTime[] = [];
  return {
    arrived(changes) {
      for (const change of changes) {
        const { kind, namespace, name } = change.ref;
        const names = pending.get(kind) ?? new Set();
        pending.set(kind, names.add(`${namespace}/${name}`));
        if (change.type !== 'put' || kind !== 'EndpointSlice') continue;
        const trigger = triggerTimeOf(change.object);
        if (trigger !== undefined && trigger.atMs > startedMs) triggers.push(trigger);
      }
    },
    count: (kind) => pending.get(kind)?.size ?? 0,
    programmed() {
      const programmed = triggers;
      triggers = [];
      pending.clear();
      return programmed;
    },
  };
}
