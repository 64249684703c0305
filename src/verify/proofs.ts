// SPDX-License-Identifier: Apache-2.0
// When each Service was last proven equal. What is being written while it is read differs for a moment: a difference counts if
// two readings in a row have found the same. Pure. Times are milliseconds of one monotonic clock.
import type { ServiceKey } from '../plan/types.ts';
import type { Differences } from './differences.ts';

export class Proofs {
  #seen: Differences = new Map();
  #confirmed: Differences = new Map();
  /** When it was last equal, or was first to be proven. */
  readonly #sinceMs = new Map<ServiceKey, number>();

  /**
   * @param services of the plan
   * @param readMs when the reading began: what was proven then may differ since
   */
  judge(services: Iterable<ServiceKey>, found: Differences, readMs: number): void {
    const there = new Set(services);
    for (const key of found.keys()) there.add(key);
    for (const key of this.#sinceMs.keys()) if (!there.has(key)) this.#sinceMs.delete(key);
    for (const key of there)
      if (!found.has(key) || !this.#sinceMs.has(key)) this.#sinceMs.set(key, readMs);
    this.#confirmed = new Map([...found].filter(([key, what]) => this.#seen.get(key) === what));
    this.#seen = found;
  }

  /** Differs now, as two readings have found. */
  get confirmed(): Differences {
    return this.#confirmed;
  }

  /** Of the one that has waited longest; undefined: nothing was read yet. */
  oldestMs(): number | undefined {
    let oldest: number | undefined;
    for (const atMs of this.#sinceMs.values())
      if (oldest === undefined || atMs < oldest) oldest = atMs;
    return oldest;
  }

  /** Those that the last reading has not proven equal. */
  unproven(): number {
    return this.#seen.size;
  }
}
