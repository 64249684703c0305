// SPDX-License-Identifier: Apache-2.0
// A map that never changes: a change gives a new map, which shares all that is the same with the old one. Both can be
// kept for little memory, and what differs between them is found without looking at what they share.
//   const one = persistentMap([['a', A], ['b', B]]);
//   const two = one.withChanges([['a', undefined]]);   // one still has `a`
//   differences(one, two)                              // ['a']

/** A change copies one shard, which has some 40 of 10,000 entries, and the list of shards. */
const SHARDS = 256;

/** Sorted by key. A key and its value have the same index. */
interface Shard<V> {
  readonly keys: readonly string[];
  readonly values: readonly V[];
}

/** In an order that depends on the keys alone. */
export interface PersistentMap<V extends object> extends ReadonlyMap<string, V> {
  /** undefined: the key is absent. Without a difference the map itself. */
  withChanges(changes: Iterable<readonly [string, V | undefined]>): PersistentMap<V>;
}

/** `entries` itself if it is one. */
export const persistentMap = <V extends object>(
  entries: Iterable<readonly [string, V]> = [],
): PersistentMap<V> =>
  entries instanceof Sharded ? entries : new Sharded<V>(NO_SHARDS, 0).withChanges(entries);

/** Keys that one of the maps lacks, or that have another (!==) value in it. */
export function differences<V extends object>(
  before: ReadonlyMap<string, V>,
  after: ReadonlyMap<string, V>,
): readonly string[] {
  if (before === after) return [];
  const keys: string[] = [];
  if (before instanceof Sharded && after instanceof Sharded) {
    for (let at = 0; at < SHARDS; at += 1) {
      const shard = before.shards[at] ?? EMPTY;
      const other = after.shards[at] ?? EMPTY;
      if (shard.keys !== other.keys) addDifferences(keys, entriesOf(shard), entriesOf(other));
      else if (shard !== other) addOtherValues(keys, shard, other);
    }
  } else {
    addDifferences(keys, before, after);
  }
  return keys;
}

function addDifferences<V>(
  keys: string[],
  before: ReadonlyMap<string, V>,
  after: ReadonlyMap<string, V>,
): void {
  for (const [key, value] of after) if (before.get(key) !== value) keys.push(key);
  for (const key of before.keys()) if (!after.has(key)) keys.push(key);
}

/** Of shards with the same keys. */
function addOtherValues<V>(keys: string[], before: Shard<V>, after: Shard<V>): void {
  const { length } = before.keys;
  for (let at = 0; at < length; at += 1)
    if (before.values[at] !== after.values[at]) keys.push(before.keys[at] as string);
}

const EMPTY: Shard<never> = { keys: [], values: [] };
const NO_SHARDS: readonly Shard<never>[] = Array.from({ length: SHARDS }, () => EMPTY);

const entriesOf = <V>({ keys, values }: Shard<V>): ReadonlyMap<string, V> =>
  new Map(keys.map((key, at) => [key, values[at] as V]));

/** -1: it has none. `indexOf` takes six times as long for strings. */
function indexIn(keys: readonly string[], key: string): number {
  for (let at = 0; at < keys.length; at += 1) if (keys[at] === key) return at;
  return -1;
}

function withChange<V>({ keys, values }: Shard<V>, key: string, value: V | undefined): Shard<V> {
  const at = indexIn(keys, key);
  if (value === undefined) return { keys: keys.toSpliced(at, 1), values: values.toSpliced(at, 1) };
  if (at === -1) {
    const after = keys.filter((one) => one < key).length;
    return { keys: keys.toSpliced(after, 0, key), values: values.toSpliced(after, 0, value) };
  }
  return { keys, values: values.with(at, value) };
}

/** FNV-1a: keys often differ in one character. */
function shardOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at += 1)
    hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return (hash ^ (hash >>> 8) ^ (hash >>> 16)) & (SHARDS - 1);
}

class Sharded<V extends object> implements PersistentMap<V> {
  readonly shards: readonly Shard<V>[];
  readonly size: number;

  constructor(shards: readonly Shard<V>[], size: number) {
    this.shards = shards;
    this.size = size;
  }

  get(key: string): V | undefined {
    const { keys, values } = this.shards[shardOf(key)] ?? EMPTY;
    return values[indexIn(keys, key)];
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  withChanges(changes: Iterable<readonly [string, V | undefined]>): PersistentMap<V> {
    let shards: Shard<V>[] | undefined;
    let { size } = this;
    for (const [key, value] of changes) {
      const index = shardOf(key);
      const shard = (shards ?? this.shards)[index] ?? EMPTY;
      const known = shard.values[indexIn(shard.keys, key)];
      if (known === value) continue;
      shards ??= [...this.shards];
      shards[index] = withChange(shard, key, value);
      size += Number(value !== undefined) - Number(known !== undefined);
    }
    return shards === undefined ? this : new Sharded(shards, size);
  }

  forEach(each: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this) each(value, key, this);
  }

  *entries(): MapIterator<[string, V]> {
    for (const { keys, values } of this.shards)
      for (let at = 0; at < keys.length; at += 1) yield [keys[at] as string, values[at] as V];
  }

  *keys(): MapIterator<string> {
    for (const { keys } of this.shards) yield* keys;
  }

  *values(): MapIterator<V> {
    for (const { values } of this.shards) yield* values;
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }
}
