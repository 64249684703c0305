// SPDX-License-Identifier: Apache-2.0
// A clock that moves only when told to, while sockets stay real.
import type { Clock } from '../../../../../src/lib/clock.ts';

interface Timer {
  readonly atMs: number;
  readonly action: () => void;
}

export class FakeClock implements Clock {
  /** What random() returns. */
  chance = 0.5;
  #nowMs = 1_000_000;
  readonly #timers = new Set<Timer>();

  nowMs(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, action: () => void): () => void {
    const timer = { atMs: this.#nowMs + delayMs, action };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  random = (): number => this.chance;

  /** Delays of all timers that are set, shortest first. */
  delaysMs(): number[] {
    return [...this.#timers].map(({ atMs }) => atMs - this.#nowMs).sort((a, b) => a - b);
  }

  /** Fires what becomes due, in order. */
  advance(byMs: number): void {
    const endMs = this.#nowMs + byMs;
    for (;;) {
      const due = [...this.#timers].filter(({ atMs }) => atMs <= endMs);
      const [next] = due.sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.action();
    }
    this.#nowMs = endMs;
  }
}
