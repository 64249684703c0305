// SPDX-License-Identifier: Apache-2.0
// A live read-only view of a map with mapped values; keys whose value maps to undefined are absent.

/** @param of must be cheap: it is called at every access */
export const mappedView = <K, V extends object>(
  source: ReadonlyMap<K, V>,
  of: (value: V) => V | undefined,
): ReadonlyMap<K, V> => new MappedView(source, of);

class MappedView<K, V extends object> implements ReadonlyMap<K, V> {
  readonly #source: ReadonlyMap<K, V>;
  readonly #of: (value: V) => V | undefined;

  constructor(source: ReadonlyMap<K, V>, of: (value: V) => V | undefined) {
    this.#source = source;
    this.#of = of;
  }

  get size(): number {
    let size = 0;
    for (const value of this.#source.values()) if (this.#of(value) !== undefined) size++;
    return size;
  }

  get(key: K): V | undefined {
    const value = this.#source.get(key);
    return value && this.#of(value);
  }

  has(key: K): boolean {
    return this.get(key) !== undefined;
  }

  forEach(each: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this) each(value, key, this);
  }

  *entries(): MapIterator<[K, V]> {
    for (const [key, value] of this.#source) {
      const mapped = this.#of(value);
      if (mapped !== undefined) yield [key, mapped];
    }
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
