// SPDX-License-Identifier: Apache-2.0
// Live read-only views of a map: with mapped values, and with some entries as they were at one time.

/**
 * Keys whose value maps to undefined are absent.
 * @param of must be cheap: it is called at every access
 */
export const mappedView = <K, V extends object>(
  source: ReadonlyMap<K, V>,
  of: (value: V) => V | undefined,
): ReadonlyMap<K, V> => new MappedView(source, of);

/** `source`, but these keys are as they are now: whatever becomes of them, the view has their value, or none. */
export const viewAsOfNow = <K, V extends object>(
  source: ReadonlyMap<K, V>,
  keys: Iterable<K>,
): ReadonlyMap<K, V> =>
  new FixedView(source, new Map([...keys].map((key) => [key, source.get(key)])));

abstract class View<K, V extends object> implements ReadonlyMap<K, V> {
  abstract get(key: K): V | undefined;
  abstract entries(): MapIterator<[K, V]>;

  get size(): number {
    let size = 0;
    for (const _ of this) size++;
    return size;
  }

  has(key: K): boolean {
    return this.get(key) !== undefined;
  }

  forEach(each: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this) each(value, key, this);
  }

  *keys(): MapIterator<K> {
    for (const [key] of this.entries()) yield key;
  }

  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries();
  }
}

class MappedView<K, V extends object> extends View<K, V> {
  readonly #source: ReadonlyMap<K, V>;
  readonly #of: (value: V) => V | undefined;

  constructor(source: ReadonlyMap<K, V>, of: (value: V) => V | undefined) {
    super();
    this.#source = source;
    this.#of = of;
  }

  get(key: K): V | undefined {
    const value = this.#source.get(key);
    return value && this.#of(value);
  }

  *entries(): MapIterator<[K, V]> {
    for (const [key, value] of this.#source) {
      const mapped = this.#of(value);
      if (mapped !== undefined) yield [key, mapped];
    }
  }
}

class FixedView<K, V extends object> extends View<K, V> {
  readonly #source: ReadonlyMap<K, V>;
  readonly #fixed: ReadonlyMap<K, V | undefined>;

  constructor(source: ReadonlyMap<K, V>, fixed: ReadonlyMap<K, V | undefined>) {
    super();
    this.#source = source;
    this.#fixed = fixed;
  }

  get(key: K): V | undefined {
    return this.#fixed.has(key) ? this.#fixed.get(key) : this.#source.get(key);
  }

  *entries(): MapIterator<[K, V]> {
    for (const key of this.#source.keys()) {
      const value = this.get(key);
      if (value !== undefined) yield [key, value];
    }
    for (const [key, value] of this.#fixed)
      if (value !== undefined && !this.#source.has(key)) yield [key, value];
  }
}
