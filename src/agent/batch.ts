// SPDX-License-Identifier: Apache-2.0
// The batch of the next sync: what changed, or is to be retried, while the sync before it runs.
import { differences, persistentMap } from '../lib/persistent/map.ts';
import type { ServiceChange } from '../plan/conntrack/stale-flows.ts';
import type { Plan, ServiceKey, ServicePlan } from '../plan/types.ts';

/** What Services were when they were last programmed, and are in this sync. */
export type ServiceChanges = ReadonlyMap<ServiceKey, ServiceChange>;

export interface Batch {
  readonly services: readonly ServiceKey[];
  /** Of those that have changed since they were programmed. */
  readonly changes: ServiceChanges;
  /** Every Service, whether it is named or not. */
  readonly isFull: boolean;
}

export class NextBatch {
  #services = new Set<ServiceKey>();
  /** Services as they were last programmed. */
  #programmed = persistentMap<ServicePlan>();
  #isFull = false;
  #isOwed = false;

  add(services: Iterable<ServiceKey>): void {
    for (const key of services) this.#services.add(key);
  }

  /** These are programmed. Others of a batch still change from what they were: `add` puts them into one, to be retried. */
  programmed(changes: ServiceChanges): void {
    const all = [...changes].map(([key, { after }]) => [key, after] as const);
    this.#programmed = this.#programmed.withChanges(all);
  }

  addAll(): void {
    this.#isFull = true;
  }

  /** A sync is to run even if no Service is in it: something else has changed. */
  owe(): void {
    this.#isOwed = true;
  }

  /** No Service is to be synced. */
  isEmpty(): boolean {
    return !this.#isFull && this.#services.size === 0;
  }

  isDue(): boolean {
    return this.#isOwed || !this.isEmpty();
  }

  /** Hands the batch over: what comes now belongs to the one after it. */
  take(plan: Plan | undefined): Batch {
    const isFull = this.#isFull;
    const services = [...this.#services];
    this.#services = new Set();
    this.#isFull = false;
    this.#isOwed = false;
    return { services, changes: plan ? this.#changes(plan, isFull, services) : NONE, isFull };
  }

  #changes(
    { services }: Plan,
    isFull: boolean,
    keys: readonly ServiceKey[],
  ): Map<ServiceKey, ServiceChange> {
    const changes = new Map<ServiceKey, ServiceChange>();
    for (const key of isFull ? differences(this.#programmed, services) : keys) {
      const [before, after] = [this.#programmed.get(key), services.get(key)];
      if (before !== after) changes.set(key, { before, after });
    }
    return changes;
  }
}

const NONE: ServiceChanges = new Map();
