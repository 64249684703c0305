// SPDX-License-Identifier: Apache-2.0
// Changes -> the handler, in batches with a turn of the event loop between them. A handler that throws
// is never the end of a stream: the object that upset it is counted, logged by name and offered again,
// until it is taken or replaced by a newer change of the same object.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { reasonOf } from '../../../errors.ts';
import { createBackoff } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import type { ObjectChange, ObjectRef } from '../../../model/types.ts';
import { LIMITS } from '../limits.ts';

export interface DeliveryParts {
  readonly onChanges: (changes: readonly ObjectChange[]) => void;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn'>;
}

export class Delivery {
  readonly #parts: DeliveryParts;
  /** What the handler refused, newest change of each object. */
  readonly #refused = new Map<string, ObjectChange>();
  readonly #backoff;
  #cancelRetry: (() => void) | undefined;
  #errors = 0;
  #isClosed = false;

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    this.#backoff = createBackoff(LIMITS.backoff, parts.clock.random);
  }

  /** Times the handler threw for one object. */
  get errors(): number {
    return this.#errors;
  }

  /** Objects that wait to be offered again. */
  get waiting(): number {
    return this.#refused.size;
  }

  /** Resolves when all were offered; the handler is never called with nothing. Never rejects. */
  async deliver(changes: readonly ObjectChange[]): Promise<void> {
    for (let from = 0; from < changes.length; from += LIMITS.batchChanges) {
      if (from > 0) await nextTurn();
      if (this.#isClosed) return;
      this.#offer(changes.slice(from, from + LIMITS.batchChanges));
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRetry?.();
  }

  #offer(batch: readonly ObjectChange[]): void {
    for (const { ref } of batch) this.#refused.delete(textOf(ref));
    try {
      this.#parts.onChanges(batch);
    } catch (error) {
      // One of the batch is refused. Each is offered alone, to find which; to take a change a second time changes nothing.
      if (batch.length === 1) this.#refuse(batch, error);
      else for (const change of batch) this.#offerAlone(change);
    }
    this.#scheduleRetry();
  }

  #offerAlone(change: ObjectChange): void {
    try {
      this.#parts.onChanges([change]);
    } catch (error) {
      this.#refuse([change], error);
    }
  }

  #refuse(changes: readonly ObjectChange[], error: unknown): void {
    for (const change of changes) {
      const object = textOf(change.ref);
      this.#errors += 1;
      this.#refused.set(object, change);
      this.#parts.log.warn({ object, reason: reasonOf(error) }, 'change not applied, will retry');
    }
  }

  #scheduleRetry(): void {
    if (this.#refused.size === 0) {
      this.#cancelRetry?.();
      this.#cancelRetry = undefined;
      this.#backoff.reset();
    } else {
      this.#cancelRetry ??= this.#parts.clock.after(this.#backoff.nextMs(), () => this.#retry());
    }
  }

  #retry(): void {
    this.#cancelRetry = undefined;
    if (this.#isClosed) return;
    const again = [...this.#refused.values()];
    this.#refused.clear();
    for (const change of again) this.#offerAlone(change);
    this.#scheduleRetry();
  }
}

const textOf = ({ kind, namespace, name }: ObjectRef): string => `${kind} ${namespace}/${name}`;
