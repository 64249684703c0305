// SPDX-License-Identifier: Apache-2.0
// When what could not be programmed is retried: with exponential backoff, and at once when a table that was full
// has room.
import { createBackoff } from '../lib/backoff.ts';
import type { Failures } from './failures.ts';

export class Retries {
  readonly #failures: Failures;
  readonly #retry: () => void;
  readonly #backoff = createBackoff({ firstMs: 100, maxMs: 30_000, jitter: 'equal' }, Math.random);
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  /** A change was synced since the last retry of a full table; without this check it would be retried forever. */
  #mayTryRoom = false;

  constructor(failures: Failures, retry: () => void) {
    this.#failures = failures;
    this.#retry = retry;
  }

  /** The failures have been noted anew. */
  noted(): void {
    if (this.#failures.isEmpty()) this.#backoff.reset();
    else if (this.#timer === undefined && !this.#isStopped)
      this.#timer = setTimeout(() => this.#now(), this.#backoff.nextMs());
  }

  /** The plan has changed. */
  planned(): void {
    this.#mayTryRoom = true;
  }

  /** A table has room: the Services that did not fit are retried, once for every change. */
  roomMade(): void {
    if (this.#isStopped || !this.#mayTryRoom || !this.#failures.hasFullMap()) return;
    this.#mayTryRoom = false;
    this.#now();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #now(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#retry();
  }
}
