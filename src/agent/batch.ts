// SPDX-License-Identifier: Apache-2.0
// The batch of the next sync: what changed, or is to be retried, while the sync before it runs.
import type { ServiceChange } from '../plan/conntrack/stale-flows.ts';
import type { Plan, PlanDelta, ServiceKey, ServicePlan } from '../plan/types.ts';

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
  /** By changed Service: as it was last programmed. */
  #before = new Map<ServiceKey, ServicePlan | undefined>();
  #isFull = false;
  #isOwed = false;

  add(services: Iterable<ServiceKey>): void {
    for (const key of services) this.#services.add(key);
  }

  change({ changed, previous }: PlanDelta): void {
    this.add(changed);
    for (const key of changed) {
      if (!this.#before.has(key)) this.#before.set(key, previous.get(key));
    }
  }

  /** These were not programmed: they still change from what they were before. `add` puts them into a batch, to be retried. */
  restore(changes: Iterable<readonly [ServiceKey, ServiceChange]>): void {
    for (const [key, { before }] of changes) this.#before.set(key, before);
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
    const changes = new Map<ServiceKey, ServiceChange>();
    for (const key of isFull ? this.#before.keys() : services) {
      if (!this.#before.has(key)) continue;
      changes.set(key, { before: this.#before.get(key), after: plan?.services.get(key) });
      this.#before.delete(key);
    }
    this.#services = new Set();
    this.#isFull = false;
    this.#isOwed = false;
    return { services, changes, isFull };
  }
}
