// SPDX-License-Identifier: Apache-2.0
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  differences,
  type PersistentMap,
  persistentMap,
} from '../../../../src/lib/persistent/map.ts';
import { createMapping } from '../../../../src/lib/persistent/mapping.ts';

interface Value {
  readonly number: number;
}

type Change = readonly [string, Value | undefined];

/** Few keys, so that they meet; `k4` to `k60` meet each other in shards, too. */
const key = fc.oneof(
  fc.constantFrom('', 'a', 'default/web', 'é', '💥'),
  fc.nat(3_000).map((number) => `k${number}`),
);
const value = fc.nat(3).map((number): Value => ({ number }));
const changes = fc.array(fc.tuple(key, fc.option(value, { nil: undefined })), { maxLength: 200 });
const history = fc.array(changes, { maxLength: 8 });

const applied = (map: ReadonlyMap<string, Value>, batch: readonly Change[]) => {
  const next = new Map(map);
  for (const [one, change] of batch) {
    if (change === undefined) next.delete(one);
    else next.set(one, change);
  }
  return next;
};

/** Every reader of a map. */
const readings = (map: ReadonlyMap<string, Value>) => {
  const each: [string, Value][] = [];
  map.forEach((one, its, self) => {
    expect(self).toBe(map);
    each.push([its, one]);
  });
  return { size: map.size, all: [...map], entries: [...map.entries()], each };
};

const expectEqual = (map: PersistentMap<Value>, model: ReadonlyMap<string, Value>) => {
  const { size, all, entries, each } = readings(map);
  expect(size).toBe(model.size);
  expect(new Map(all)).toEqual(model);
  expect([entries, each, [...map.keys()].map((one) => [one, map.get(one)])]).toEqual([
    all,
    all,
    all,
  ]);
  expect([...map.values()]).toEqual(all.map(([, one]) => one));
  for (const [one, its] of model) expect([map.has(one), map.get(one)]).toEqual([true, its]);
  expect([map.has('absent'), map.get('absent')]).toEqual([false, undefined]);
};

describe('a persistent map', () => {
  it('is as a Map with the same changes, and stays so whatever is made of it later', () => {
    fc.assert(
      fc.property(history, (batches) => {
        let [map, model] = [persistentMap<Value>(), new Map<string, Value>()];
        const versions: [PersistentMap<Value>, ReadonlyMap<string, Value>][] = [];
        for (const batch of batches) {
          map = map.withChanges(batch);
          model = applied(model, batch);
          versions.push([map, model]);
        }
        for (const [version, then] of versions) expectEqual(version, then);
      }),
    );
  });

  it('has an order that depends on its keys alone', () => {
    fc.assert(
      fc.property(changes, (batch) => {
        const map = persistentMap<Value>().withChanges(batch);
        expect([...persistentMap([...map].reverse())]).toEqual([...map]);
      }),
    );
  });

  it('is itself where nothing changes', () => {
    fc.assert(
      fc.property(changes, (batch) => {
        const map = persistentMap<Value>().withChanges(batch);
        expect(map.withChanges([...map, ['absent', undefined]])).toBe(map);
        expect(persistentMap(map)).toBe(map);
      }),
    );
  });

  it('differs from another one in the keys in which maps like them do', () => {
    fc.assert(
      fc.property(changes, changes, (first, second) => {
        const before = persistentMap<Value>().withChanges(first);
        const after = before.withChanges(second);
        const all = new Set([...before.keys(), ...after.keys()]);
        const expected = [...all].filter((one) => before.get(one) !== after.get(one)).sort();
        expect([...differences(before, after)].sort()).toEqual(expected);
        expect([...differences(after, before)].sort()).toEqual(expected);
        expect([...differences(new Map(before), after)].sort()).toEqual(expected);
        expect(differences(after, after)).toEqual([]);
      }),
    );
  });

  it('shares what has not changed: one change of 10,000 entries costs a thousandth of them', () => {
    const entries = Array.from({ length: 10_000 }, (_, number) => [`n/web-${number}`, { number }]);
    const map = persistentMap(entries as unknown as [string, Value][]);
    const looked: string[] = [];
    const mapping = createMapping<Value>((one) => {
      looked.push(`n/web-${one.number}`);
      return { number: -one.number };
    });
    const before = mapping(map);
    looked.length = 0;
    const after = mapping(map.withChanges([['n/web-7', { number: 8 }]]));
    expect(looked).toEqual(['n/web-8']);
    expect(differences(before, after)).toEqual(['n/web-7']);
    // By identity of what a Map would have to copy.
    const shards = (of: unknown) => (of as { readonly shards: readonly unknown[] }).shards;
    const shared = shards(before).filter((shard, at) => shard === shards(after)[at]);
    expect(shards(before).length - shared.length).toBe(1);
  });
});

describe('a mapping', () => {
  const doubled = ({ number }: Value) => (number === 0 ? undefined : { number: 2 * number });

  it('is as every value mapped, and keeps what it has made of a value', () => {
    fc.assert(
      fc.property(history, (batches) => {
        const mapping = createMapping(doubled);
        let source = persistentMap<Value>();
        let last: ReadonlyMap<string, Value> = source;
        for (const batch of batches) {
          const before = source;
          source = source.withChanges(batch);
          const mapped = mapping(source);
          const expected = [...source].flatMap(([one, its]) => {
            const value = doubled(its);
            return value === undefined ? [] : [[one, value] as const];
          });
          expect(new Map(mapped)).toEqual(new Map(expected));
          for (const [one, its] of source)
            if (before.get(one) === its) expect(mapped.get(one)).toBe(last.get(one));
          last = mapped;
        }
      }),
    );
  });

  it('gives a map of which nothing changes as it is', () => {
    const mapping = createMapping<Value>((one) => (one.number === 1 ? { number: 2 } : one));
    const first = persistentMap([['a', { number: 0 }]]);
    expect(mapping(first)).toBe(first);
    const second = first.withChanges([['b', { number: 0 }]]);
    expect(mapping(second)).toBe(second);
    const third = second.withChanges([['c', { number: 1 }]]);
    expect(mapping(third).get('c')).toEqual({ number: 2 });
    const plain = new Map([['a', { number: 0 }]]);
    expect([...mapping(plain)]).toEqual([...plain]);
  });
});
