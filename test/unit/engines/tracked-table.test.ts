// SPDX-License-Identifier: Apache-2.0
// What holds for any history of wishes, refused writes, errors and changes by others.
import fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { type RowTarget, TrackedTable } from '../../../src/engines/tracked-table.ts';

let kernel: Map<string, number>;
/** These are refused. */
let refused: Set<string>;
/** The next call throws, after as many rows. */
let breaksAfter: number | undefined;
let writes: string[];

const each = <T>(all: readonly T[], keyOf: (one: T) => string, write: (one: T) => void) =>
  all.flatMap((one, index) => {
    if (breaksAfter !== undefined && breaksAfter-- <= 0) {
      breaksAfter = undefined;
      throw new Error('EIO');
    }
    if (refused.has(keyOf(one))) return [{ index, code: 'E2BIG' }];
    write(one);
    return [];
  });

const target: RowTarget<string, number> = {
  read: () => kernel,
  put: (rows) =>
    each(
      rows,
      ([key]) => key,
      ([key, value]) => {
        kernel.set(key, value);
        writes.push(`${key}=${value}`);
      },
    ),
  delete: (keys) =>
    each(
      keys,
      (key) => key,
      (key) => {
        kernel.delete(key);
        writes.push(`-${key}`);
      },
    ),
};

beforeEach(() => {
  kernel = new Map();
  refused = new Set();
  breaksAfter = undefined;
  writes = [];
});

const sorted = (rows: Iterable<readonly [string, number]>) => [...rows].sort();

type Wanted = Map<string, number>;
type Table = TrackedTable<string, number>;
interface World {
  readonly table: Table;
  readonly wanted: Wanted;
  /** Nobody else has written since the last reading. */
  isKnown: boolean;
}
type Step = (world: World) => void;

const key = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const value = fc.integer({ min: 1, max: 3 });
const rows = fc.dictionary(key, value).map((record) => new Map(Object.entries(record)));

/** Law: the keys that failed are those that were refused and differ; all others are as desired. */
function checkWrite({ table, wanted, isKnown }: World, failed: readonly { key: string }[]): void {
  const keys = failed.map((one) => one.key);
  for (const one of keys) expect(refused.has(one)).toBe(true);
  if (!isKnown) return;
  for (const one of ['a', 'b', 'c', 'd', 'e']) {
    if (!keys.includes(one)) expect(kernel.get(one)).toBe(wanted.get(one));
    expect(table.isPending(one)).toBe(keys.includes(one));
  }
  expect(table.size).toBe(kernel.size);
}

const own: readonly fc.Arbitrary<Step>[] = [
  fc.tuple(key, value).map(
    ([one, to]): Step =>
      ({ table, wanted }) => {
        table.set(one, to);
        wanted.set(one, to);
      },
  ),
  key.map(
    (one): Step =>
      ({ table, wanted }) => {
        table.delete(one);
        wanted.delete(one);
      },
  ),
  rows.map(
    (all): Step =>
      ({ table, wanted }) => {
        table.setAll(all);
        wanted.clear();
        for (const [one, to] of all) wanted.set(one, to);
      },
  ),
  fc.array(key).map(
    (keys): Step =>
      () => {
        refused = new Set(keys);
      },
  ),
  fc.nat({ max: 4 }).map(
    (count): Step =>
      ({ table }) => {
        breaksAfter = count;
        try {
          table.write();
        } catch {}
        breaksAfter = undefined;
      },
  ),
  fc.constant<Step>((world) => checkWrite(world, world.table.write())),
  fc.constant<Step>((world) => {
    const before = new Map(kernel);
    const { repaired, failed } = world.table.audit();
    world.isKnown = true;
    checkWrite(world, failed);
    for (const one of repaired) {
      expect(before.get(one.key)).not.toBe(world.wanted.get(one.key));
      expect(kernel.get(one.key)).toBe(world.wanted.get(one.key));
    }
  }),
];
const others: fc.Arbitrary<Step> = fc.tuple(key, fc.option(value)).map(
  ([one, to]): Step =>
    (world) => {
      if (to === null) kernel.delete(one);
      else kernel.set(one, to);
      world.isKnown = false;
    },
);
const history = (...steps: readonly fc.Arbitrary<Step>[]) =>
  fc.array(fc.oneof(...steps), { maxLength: 30 });

function play(left: Wanted, steps: readonly Step[]): World {
  kernel = new Map(left);
  refused = new Set();
  const world: World = { table: new TrackedTable(target), wanted: new Map(), isKnown: true };
  for (const step of steps) {
    step(world);
    for (const [one, to] of world.wanted) expect(world.table.get(one)).toBe(to);
  }
  refused = new Set();
  return world;
}

test('whatever fails and in whatever order: after the last success the rows are as desired', () => {
  fc.assert(
    fc.property(rows, history(...own), (left, steps) => {
      const { table, wanted } = play(left, steps);
      expect(table.write()).toEqual([]);
      expect(sorted(kernel)).toEqual(sorted(wanted));
      writes = [];
      expect([table.write(), table.audit()]).toEqual([[], { repaired: [], failed: [] }]);
      expect([table.isDone, writes]).toEqual([true, []]);
    }),
    { numRuns: 500 },
  );
});

test('so they are after an audit, whatever somebody else has written', () => {
  fc.assert(
    fc.property(rows, history(...own, others), (left, steps) => {
      const { table, wanted } = play(left, steps);
      expect(table.audit().failed).toEqual([]);
      expect(sorted(kernel)).toEqual(sorted(wanted));
      expect(table.isDone).toBe(true);
    }),
    { numRuns: 500 },
  );
});

test('what an earlier process left right is not written again, what it left over is removed first', () => {
  kernel = new Map([
    ['a', 1],
    ['b', 1],
    ['c', 1],
  ]);
  const table: Table = new TrackedTable(target);
  table.setAll(
    new Map([
      ['a', 1],
      ['b', 2],
      ['d', 1],
    ]),
  );
  expect(table.write()).toEqual([]);
  expect(writes).toEqual(['-c', 'b=2', 'd=1']);
});

test('a failure names its key and both values, is repeated until it is mended, and holds up no other', () => {
  const table: Table = new TrackedTable(target);
  table.setAll(
    new Map([
      ['a', 1],
      ['b', 1],
    ]),
  );
  table.write();
  table.setAll(
    new Map([
      ['b', 2],
      ['c', 3],
      ['d', 4],
    ]),
  );
  refused = new Set(['a', 'b', 'c']);
  const failures = [
    { key: 'a', code: 'E2BIG', programmed: 1, desired: undefined },
    { key: 'b', code: 'E2BIG', programmed: 1, desired: 2 },
    { key: 'c', code: 'E2BIG', programmed: undefined, desired: 3 },
  ];
  expect(table.write()).toEqual(failures.map((one) => ({ ...one, isRepeated: false })));
  expect(table.write()).toEqual(failures.map((one) => ({ ...one, isRepeated: true })));
  expect(sorted(kernel)).toEqual([
    ['a', 1],
    ['b', 1],
    ['d', 4],
  ]);
  refused = new Set();
  expect(table.write()).toEqual([]);
  refused = new Set(['c']);
  table.set('c', 5);
  expect(table.write()).toMatchObject([{ key: 'c', programmed: 3, isRepeated: false }]);
});

test('an audit tells what others changed, each once, and not what has failed', () => {
  const table: Table = new TrackedTable(target);
  refused = new Set(['d']);
  table.setAll(new Map(Object.entries({ a: 1, b: 1, d: 1, e: 1 })));
  table.write();
  kernel = new Map(Object.entries({ b: 2, c: 1, e: 1 }));
  expect(table.audit().repaired).toEqual([
    { key: 'a', kind: 'missing' },
    { key: 'b', kind: 'differs' },
    { key: 'c', kind: 'stray' },
  ]);
  expect(sorted(kernel)).toEqual(sorted(Object.entries({ a: 1, b: 1, e: 1 })));
  expect(table.audit()).toMatchObject({ repaired: [], failed: [{ key: 'd', isRepeated: true }] });
  kernel.delete('a');
  refused = new Set(['a']);
  expect(table.audit()).toMatchObject({ repaired: [], failed: [{ key: 'a', isRepeated: false }] });
});

test('after an error in the middle of a write the rows are read again', () => {
  const table: Table = new TrackedTable(target);
  table.setAll(new Map(Object.entries({ a: 1, b: 1 })));
  breaksAfter = 1;
  expect(() => table.write()).toThrow('EIO');
  table.delete('a');
  expect(table.isDone).toBe(false);
  expect(table.write()).toEqual([]);
  expect(sorted(kernel)).toEqual([['b', 1]]);
});

test('before the first reading nothing is done, and what an earlier process left is no difference', () => {
  kernel = new Map(Object.entries({ a: 1, b: 1 }));
  const table: Table = new TrackedTable(target);
  expect(table.isDone).toBe(false);
  table.set('a', 2);
  expect(table.audit()).toEqual({ repaired: [], failed: [] });
  expect([sorted(kernel), table.isDone]).toEqual([[['a', 2]], true]);
});

test('what is adopted stays until something else is desired', () => {
  kernel = new Map(Object.entries({ a: 1, b: 1, c: 1 }));
  const table: Table = new TrackedTable(target);
  expect([...table.adopt()]).toEqual(['a', 'b', 'c']);
  table.set('a', 2);
  table.delete('b');
  expect(table.write()).toEqual([]);
  expect(sorted(kernel)).toEqual(sorted(Object.entries({ a: 2, c: 1 })));
});
