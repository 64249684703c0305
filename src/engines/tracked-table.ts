// SPDX-License-Identifier: Apache-2.0
// A table that follows what is desired: what is programmed, what is pending, what has failed and is retried, and what a
// read-back finds. Only differences are written. Where its rows are is the target's business.
import { isSame } from '../lib/json.ts';

export type Row<K, V> = readonly [key: K, value: V];

export interface RefusedRow {
  /** Within the call's list. */
  readonly index: number;
  readonly code: string;
}

/** Where the rows are. Each call does all that it can, and returns what was refused. */
export interface RowTarget<K, V> {
  read(): Iterable<Row<K, V>>;
  put(rows: readonly Row<K, V>[]): readonly RefusedRow[];
  /** Absent keys count as deleted. */
  delete(keys: readonly K[]): readonly RefusedRow[];
}

/** A row that is not as it should be. Every write tries it again. */
export interface RowFailure<K, V> {
  readonly key: K;
  readonly code: string;
  /** undefined: there is none. */
  readonly programmed: V | undefined;
  /** undefined: there should be none. */
  readonly desired: V | undefined;
  /** So it was after the last write. */
  readonly isRepeated: boolean;
}

/** What somebody else has changed. */
export interface RowDifference<K> {
  readonly key: K;
  readonly kind: 'stray' | 'missing' | 'differs';
}

export class TrackedTable<K, V> {
  readonly #target: RowTarget<K, V>;
  /** As written or read last. */
  #programmed = new Map<K, V>();
  /** False before the first reading, and after an error in the middle of a write. */
  #isRead = false;
  /** Where `programmed` is not what is desired: the desired value; undefined: none. What is desired is both together. */
  readonly #pending = new Map<K, V | undefined>();
  /** Why those of `pending` that were tried have failed. */
  readonly #failures = new Map<K, string>();

  constructor(target: RowTarget<K, V>) {
    this.#target = target;
  }

  /** Reads what an earlier process has left, all of which stays until something else is desired. @returns its keys */
  adopt(): Iterable<K> {
    this.#programmed = new Map(this.#target.read());
    this.#isRead = true;
    return [...this.#programmed.keys()];
  }

  /** What is desired. */
  get(key: K): V | undefined {
    return this.#pending.has(key) ? this.#pending.get(key) : this.#programmed.get(key);
  }

  set(key: K, value: V): void {
    this.#desire(key, value);
  }

  delete(key: K): void {
    this.#desire(key, undefined);
  }

  /** These rows and no others are desired. */
  setAll(rows: ReadonlyMap<K, V>): void {
    for (const key of this.#keys()) if (!rows.has(key)) this.delete(key);
    for (const [key, value] of rows) this.set(key, value);
  }

  isPending(key: K): boolean {
    return this.#pending.has(key);
  }

  /** True if the next write has nothing to do. */
  get isDone(): boolean {
    return this.#isRead && this.#pending.size === 0;
  }

  /** How many rows are programmed. */
  get size(): number {
    return this.#programmed.size;
  }

  /**
   * Writes what is pending, removals first because they make room. Reads before that what an earlier process, or an
   * earlier write that threw, has left.
   */
  write(): readonly RowFailure<K, V>[] {
    if (!this.#isRead) this.#readBack();
    const gone: K[] = [];
    const due: Row<K, V>[] = [];
    for (const [key, value] of this.#pending) {
      if (value === undefined) gone.push(key);
      else due.push([key, value]);
    }
    this.#isRead = false;
    const kept = gone.length === 0 ? [] : this.#note(gone, this.#target.delete(gone));
    const keys = due.map(([key]) => key);
    const missing = due.length === 0 ? [] : this.#note(keys, this.#target.put(due));
    this.#isRead = true;
    return [...kept, ...missing];
  }

  /** Reads the rows back, and writes those that differ. A row that failed before, or fails again, is not repaired. */
  audit(): {
    readonly repaired: readonly RowDifference<K>[];
    readonly failed: readonly RowFailure<K, V>[];
  } {
    // What an earlier process has left is nobody's change.
    if (!this.#isRead) return { repaired: [], failed: this.write() };
    const found = this.#readBack();
    const failed = this.write();
    return { repaired: found.filter(({ key }) => !this.isPending(key)), failed };
  }

  #desire(key: K, value: V | undefined): void {
    const held = this.#programmed.get(key);
    if (value === undefined ? held === undefined : isSame(held, value)) {
      this.#pending.delete(key);
      this.#failures.delete(key);
    } else {
      this.#pending.set(key, value);
    }
  }

  #keys(): Set<K> {
    return new Set([...this.#programmed.keys(), ...this.#pending.keys()]);
  }

  /** @returns what is pending only because of it */
  #readBack(): readonly RowDifference<K>[] {
    const before = this.#programmed;
    const now = new Map(this.#target.read());
    const keys = this.#keys();
    for (const key of now.keys()) keys.add(key);
    const found: RowDifference<K>[] = [];
    this.#programmed = now;
    this.#isRead = true;
    for (const key of keys) {
      const isKnown = this.#pending.has(key);
      const desired = isKnown ? this.#pending.get(key) : before.get(key);
      this.#desire(key, desired);
      if (isKnown || !this.#pending.has(key)) continue;
      const kind = desired === undefined ? 'stray' : now.has(key) ? 'differs' : 'missing';
      found.push({ key, kind });
    }
    return found;
  }

  #note(keys: readonly K[], refused: readonly RefusedRow[]): readonly RowFailure<K, V>[] {
    const codes = new Map(refused.map(({ index, code }) => [index, code]));
    const failed: RowFailure<K, V>[] = [];
    for (const [index, key] of keys.entries()) {
      const code = codes.get(index);
      const desired = this.#pending.get(key);
      if (code === undefined) {
        if (desired === undefined) this.#programmed.delete(key);
        else this.#programmed.set(key, desired);
        this.#pending.delete(key);
        this.#failures.delete(key);
        continue;
      }
      const isRepeated = this.#failures.get(key) === code;
      this.#failures.set(key, code);
      failed.push({ key, code, programmed: this.#programmed.get(key), desired, isRepeated });
    }
    return failed;
  }
}
