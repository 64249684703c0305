// SPDX-License-Identifier: Apache-2.0
// Maglev tables: as even as the weights say, the same from the same backends in any order, and little changed by one that
// leaves.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { murmur3 } from '../../../../src/lib/murmur3.ts';
import { isPrime, MOST_ENTRIES } from '../../../../src/model/service/table-size.ts';
import { maglevTable, populate } from '../../../../src/plan/maglev/maglev-table.ts';
import { entriesFor } from '../../../../src/plan/maglev/size.ts';

const namesOf = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => `TCP/10.1.${i >> 8}.${i & 255}/8080`);

const ones = (names: readonly string[]): readonly number[] => names.map(() => 1);

/** Names by entry. */
function tableOf(
  names: readonly string[],
  weights = ones(names),
  entries = entriesFor(names.length),
): readonly string[] {
  return Array.from(maglevTable({ names, weights, entries }), (index) => names[index] ?? '');
}

function countsOf(table: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of table) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

test('murmur3 is that of its authors', () => {
  expect(murmur3('', 0)).toBe(0);
  expect(murmur3('', 1)).toBe(0x514e28b7);
  expect(murmur3('test', 0x9747b28c)).toBe(0x704b81dc);
  expect(murmur3('Hello, world!', 0x9747b28c)).toBe(0x24884cba);
});

describe('sizes', () => {
  test('are primes, and in few steps at least 100 entries for each backend', () => {
    const sizes = new Set(Array.from({ length: 1_310 }, (_, i) => entriesFor(i + 2)));
    expect([...sizes].filter(isPrime)).toEqual([1009, 4093, 16_381, 65_521, 131_071]);
    for (let backends = 2; backends <= 1_310; backends += 1)
      expect(entriesFor(backends)).toBeGreaterThanOrEqual(100 * backends);
  });

  test('one backend needs one entry, and the most is the most', () => {
    expect(entriesFor(1)).toBe(1);
    expect(entriesFor(60_000)).toBe(MOST_ENTRIES);
  });

  test('are what a Service asks for, if that is enough', () => {
    expect(entriesFor(10, 251)).toBe(251);
    expect(entriesFor(252, 251)).toBe(131_071);
  });
});

describe('shares', () => {
  test.each([2, 3, 10, 100, 1_000])('of %i equal backends differ by one entry', (count) => {
    const counts = [...countsOf(tableOf(namesOf(count))).values()];
    expect(counts).toHaveLength(count);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
  });

  test('follow weights to within an entry and 1 %, and everybody has one', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 65_535 }), { minLength: 2, maxLength: 60 });
    fc.assert(
      fc.property(weights, (list) => {
        const names = namesOf(list.length);
        const counts = countsOf(tableOf(names, list, 16_381));
        const sum = list.reduce((a, b) => a + b, 0);
        for (const [index, weight] of list.entries()) {
          const count = counts.get(names[index] ?? '') ?? 0;
          const share = (16_381 * weight) / sum;
          expect(count).toBeGreaterThanOrEqual(1);
          expect(Math.abs(count - share)).toBeLessThanOrEqual(2 + share / 100);
        }
      }),
      { numRuns: 30 },
    );
  });
});

test('the order in which backends are given does not matter, nor do pauses', () => {
  const pairs = fc.uniqueArray(fc.tuple(fc.ipV4(), fc.integer({ min: 1, max: 9 })), {
    minLength: 2,
    maxLength: 40,
    selector: ([address]) => address,
  });
  const shuffled = pairs.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
  );
  fc.assert(
    fc.property(shuffled, ([list, other]) => {
      const of = (some: typeof list) =>
        tableOf(
          some.map(([address]) => address),
          some.map(([, weight]) => weight),
          1009,
        );
      expect(of(other)).toEqual(of(list));
    }),
    { numRuns: 30 },
  );
});

test('a large table has pauses, and ends all the same', () => {
  const names = namesOf(1_000);
  const steps = populate({ names, weights: ones(names), entries: MOST_ENTRIES });
  let pauses = 0;
  for (const _ of steps) pauses += 1;
  expect(pauses).toBeGreaterThan(10);
});

describe('when one of N leaves', () => {
  // Its own entries must move: 1 / N. The paper allows more than that for the sake of even shares.
  test.each([
    [3, 1.1],
    [10, 1.4],
    [42, 1.5],
    [100, 1.5],
  ])('of %i, at most %d / N of all entries change', (count, most) => {
    const names = namesOf(count);
    const whole = tableOf(names);
    const gone = Array.from({ length: Math.min(count, 10) }, (_, i) =>
      Math.floor((i * count) / 10),
    );
    for (const index of new Set(gone)) {
      const rest = names.filter((_, i) => i !== index);
      expect(entriesFor(rest.length)).toBe(whole.length);
      const after = tableOf(rest);
      const moved = whole.filter((name, entry) => name !== after[entry]).length;
      expect((moved / whole.length) * count).toBeLessThan(most);
      expect((moved / whole.length) * count).toBeGreaterThanOrEqual(0.9);
    }
  });

  test('weights hold too', () => {
    const names = namesOf(10);
    const weights = names.map((_, index) => 1 + (index % 3));
    const whole = tableOf(names, weights);
    const after = tableOf(names.slice(1), weights.slice(1));
    const moved = whole.filter((name, entry) => name !== after[entry]).length / whole.length;
    expect(moved).toBeLessThan(
      1.5 * ((weights[0] ?? 0) / weights.reduce((a, b) => a + b, 0)) + 0.05,
    );
  });
});
