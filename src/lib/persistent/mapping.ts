// SPDX-License-Identifier: Apache-2.0
// A map made of another one, value by value, that follows it from version to version.
import { differences, persistentMap } from './map.ts';

/**
 * Gives the map of `of` of each value; undefined: it is absent. `of` is called for what differs from the map before alone,
 * and a map of which every value stays as it is is given as it is.
 */
export function createMapping<V extends object>(
  of: (value: V) => V | undefined,
): (source: ReadonlyMap<string, V>) => ReadonlyMap<string, V> {
  let source: ReadonlyMap<string, V> = persistentMap<V>();
  let mapped: ReadonlyMap<string, V> = source;
  return (next) => {
    const changes = differences(source, next).map((key) => {
      const value = next.get(key);
      return [key, value && of(value)] as const;
    });
    const isSame = mapped === source && changes.every(([key, value]) => value === next.get(key));
    mapped = isSame ? next : persistentMap(mapped).withChanges(changes);
    source = next;
    return mapped;
  };
}
