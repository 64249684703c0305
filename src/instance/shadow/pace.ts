// SPDX-License-Identifier: Apache-2.0
// When to compare: once the other proxy has had time to write what has changed, and not so often that it costs much.
// Times are milliseconds of one monotonic clock.

/** Where changes do not end, a comparison comes after this time nevertheless. */
export const LONGEST_WAIT_MS = 60_000;
/** A comparison rests ten times as long as it has taken: it takes less than a tenth of a CPU. */
export const REST = 10;

export class Pace {
  readonly #waitMs: number;
  /** The first and the last change since the last comparison has begun; undefined: there was none. */
  #changes: readonly [firstMs: number, lastMs: number] | undefined;
  #restUntilMs = 0;

  constructor(waitMs: number) {
    this.#waitMs = waitMs;
  }

  changed(nowMs: number): void {
    this.#changes = [this.#changes?.[0] ?? nowMs, nowMs];
  }

  /** undefined: nothing has changed. */
  dueMs(): number | undefined {
    if (this.#changes === undefined) return undefined;
    const [firstMs, lastMs] = this.#changes;
    const longestMs = Math.max(LONGEST_WAIT_MS, this.#waitMs);
    return Math.max(this.#restUntilMs, Math.min(lastMs + this.#waitMs, firstMs + longestMs));
  }

  /** What changes from now on is for the next one. */
  begun(): void {
    this.#changes = undefined;
  }

  ended(nowMs: number, tookMs: number): void {
    this.#restUntilMs = nowMs + REST * tookMs;
  }
}
