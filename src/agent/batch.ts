// SPDX-License-Identifier: Apache-2.0
// The batch of the next sync: what changed, or is to be retried, while the sync before it runs.
import type { ServiceKey } from '../plan/types.ts';

export interface Batch {
  readonly services: readonly ServiceKey[];
  /** Every Service, whether it is named or not. */
  readonly isFull: boolean;
}

export class NextBatch {
  #services = new Set<ServiceKey>();
  #isFull = false;
  #isOwed = false;

  add(services: Iterable<ServiceKey>): void {
    for (const key of services) this.#services.add(key);
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
  take(): Batch {
    const batch = { services: [...this.#services], isFull: this.#isFull };
    this.#services = new Set();
    this.#isFull = false;
    this.#isOwed = false;
    return batch;
  }
}
