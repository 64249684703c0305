// SPDX-License-Identifier: Apache-2.0
// The words of the replies' index are short: two keys may have the same tag. Here each key has it, as if a table were so large that one
// bit were left. A tomb's time is short, too.
import { afterEach, describe, expect, test } from 'vitest';
import { auditAndEmpty, countsOf } from './support/audit.ts';
import { ConnTable, FAMILIES } from './support/conn-table.ts';
import { type Connection, UDP_NEW } from './support/operation.ts';

/** All but the highest bit of a tag. */
const ONE_BIT = 0x0fff_ffff;
const UNIT = 64;
/** Units of a tomb's clock, and the longest that one may wait. */
const ROUND = 8_192 * UNIT;
const LONGEST = 4_094 * UNIT;

let table: ConnTable;
afterEach(() => table.close());

const numbered = (count: number, from = 0): readonly Connection[] =>
  Array.from({ length: count }, (_, n) => ({ id: from + n }));

describe.each(FAMILIES)('%s', (family) => {
  const open = (buckets: number, rodata?: Readonly<Record<string, number>>): ConnTable => {
    table = new ConnTable(family, buckets, undefined, rodata);
    return table;
  };
  const openWithOneTag = (buckets: number): ConnTable =>
    open(buckets, { conn_index_mask4: ONE_BIT, conn_index_mask6: ONE_BIT });

  test('with one tag each connection is found by its own tuple', () => {
    openWithOneTag(1);
    const all = numbered(5);
    for (const one of all) {
      expect(table.begin(one)).toBe('made');
      expect(table.confirm(one)).toBe(true);
    }
    expect(all.map((one) => table.findReply(one)?.id)).toEqual(all.map(({ id }) => id));
    expect(table.begin({ id: 9, replyPort: 1_024 + 3 })).toBe('taken');
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('a look-up that finds words of its tag, and no connection, leaves no index', () => {
    openWithOneTag(1);
    for (const one of numbered(3)) table.begin(one);
    expect(table.findReply({ id: 7 })).toBeUndefined();
    expect(table.indexAfterReply({ id: 7 }, 12_345)).toBe(12_345);
    expect(table.indexAfterReply({ id: 2 }, 12_345)).toBe(table.find({ id: 2 })?.index);
  });

  test('a connection is not kept from its second tuple by the word of its first one', () => {
    openWithOneTag(1);
    const both = numbered(3).map(({ id }) => ({ id, own: false }));
    expect(both.map((one) => table.begin(one))).toEqual(['made', 'made', 'made']);
    expect(both.map((one) => table.findReply(one)?.id)).toEqual([0, 1, 2]);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('a connection that frees one tuple keeps the word of the other', () => {
    openWithOneTag(4);
    const both = numbered(400).map(({ id }) => ({ id, own: false }));
    for (const [at, one] of both.entries()) {
      expect(table.begin(one)).toBe('made');
      expect(table.confirm(one)).toBe(true);
      // Both words of one may be in one bucket, or each in another one.
      if (at >= 20) expect(table.release(both[at - 20]!)).toBe(true);
      const live = both.slice(Math.max(0, at - 19), at + 1);
      expect(live.filter((other) => !table.findReply(other))).toEqual([]);
    }
    expect(auditAndEmpty(table)).toEqual([]);
    expect(countsOf(table.object, family).noReply).toBe(0);
  });

  /** Leaves the tomb of a question. */
  function leaveTomb(replyPort: number): void {
    const question = { id: 1, protocol: 'udp', replyPort } as const;
    expect(table.begin(question)).toBe('made');
    expect(table.release(question)).toBe(true);
  }
  /** One that was answered leaves no tomb. */
  const isKept = (replyPort: number): boolean => {
    const other = { id: 2, protocol: 'udp', state: 'answered', replyPort } as const;
    const begun = table.begin(other);
    if (begun === 'made') table.release(other);
    return begun === 'taken';
  };

  test('a tomb keeps its own tuple only, although another one has the tag', () => {
    openWithOneTag(1);
    leaveTomb(5_000);
    expect([isKept(5_000), isKept(5_001)]).toEqual([true, false]);
  });

  test.each([0, 1, 63, 64, 1_000, 2 ** 32 - UNIT, 2 ** 32 - 5])(
    'a tomb of tick %i waits as long as the backend may answer, and a unit more at most',
    (now) => {
      open(4);
      table.now = now;
      leaveTomb(5_000);
      const after = (ticks: number): boolean => {
        table.now = (now + ticks) % 2 ** 32;
        return isKept(5_000);
      };
      // Also by a CPU that has looked at the clock before.
      expect([-1, 0, 1, UDP_NEW - 1].map(after)).toEqual([true, true, true, true]);
      expect([UDP_NEW + UNIT, UDP_NEW + 10 * UNIT].map(after)).toEqual([false, false]);
    },
  );

  test('a tomb whose time is over stays so until its clock has gone round', () => {
    open(4);
    leaveTomb(5_000);
    const begun = table.now;
    const kept: number[] = [];
    for (let ticks = UDP_NEW + UNIT; ticks < ROUND - 4 * UNIT; ticks += 100 * UNIT) {
      table.now = begun + ticks;
      if (isKept(5_000)) kept.push(ticks);
    }
    expect(kept).toEqual([]);
  });

  test.each([LONGEST - UNIT, LONGEST, LONGEST + UNIT, ROUND, 3 * ROUND, 2 ** 30])(
    'where the backend may answer for %i ticks, it waits for 73 minutes at most',
    (udpNew) => {
      open(4);
      table.udpNew = udpNew;
      leaveTomb(5_000);
      const begun = table.now;
      const after = (ticks: number): boolean => {
        table.now = begun + ticks;
        return isKept(5_000);
      };
      const longest = Math.min(udpNew, LONGEST);
      expect([0, UNIT, longest / 2, longest - UNIT].map(after)).toEqual([true, true, true, true]);
      expect(after(longest + 2 * UNIT)).toBe(false);
    },
  );
});
