// SPDX-License-Identifier: Apache-2.0
// Connections are carried into a larger table, while the programs of the smaller one go on.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { auditAndEmpty, recordAt } from './support/audit.ts';
import { Carrier } from './support/carrier.ts';
import { ConnTable, FAMILIES, type Found } from './support/conn-table.ts';
import { AT, type Connection } from './support/operation.ts';

const BUCKETS = [60, 200] as const;
const CONFIRMED: readonly Connection[] = Array.from({ length: 200 }, (_, id) => ({ id }));
const HALF_OPEN: readonly Connection[] = Array.from({ length: 40 }, (_, n) => ({ id: 1_000 + n }));
const WITHOUT_REPLY: Connection = { id: 2_000, replyPort: 0 };
const ALL = [...CONFIRMED, ...HALF_OPEN, WITHOUT_REPLY];
/** As `fairlead connections --drop-stale` writes it. */
const LONG_AGO = 3 * 2 ** 29;

let from: ConnTable;
let carrier: Carrier;
describe.each(FAMILIES)('%s', (family) => {
  beforeEach(() => {
    from = new ConnTable(family, BUCKETS[0]);
    for (const one of ALL) {
      expect(from.begin(one)).toBe('made');
      if (CONFIRMED.includes(one)) expect(from.confirm(one)).toBe(true);
    }
    carrier = new Carrier(from, BUCKETS);
  });
  afterEach(() => {
    carrier.close();
    from.close();
  });

  const withoutIndex = (found: Found | undefined) => found && { ...found, index: 0 };
  /** Both tables have these, in the same state. */
  function expectSame(connections: readonly Connection[]): void {
    for (const one of connections) {
      const found = from.find(one);
      expect(found, `${one.id} is there`).toBeDefined();
      expect(withoutIndex(carrier.to.find(one))).toEqual(withoutIndex(found));
      if (one.replyPort === 0) continue;
      expect(carrier.to.findReply(one)?.index).toBe(carrier.to.find(one)?.index);
    }
  }

  test('all are there, found by both sides', () => {
    expect(carrier.carry(from.now)).toEqual({ new: ALL.length, again: 0, not: 0, dropped: 0 });
    expectSame(ALL);
    expect(auditAndEmpty(carrier.to)).toEqual([]);
  });

  test('a second round brings what has changed meanwhile', () => {
    carrier.carry(from.now);
    const [ended, anew, confirmed, seen] = [
      CONFIRMED[0]!,
      CONFIRMED[1]!,
      HALF_OPEN[0]!,
      CONFIRMED[2]!,
    ];
    from.release(ended);
    from.release(anew);
    from.now += 10;
    const again = { ...anew, replyPort: 60_000 };
    expect(from.begin(again)).toBe('made');
    from.confirm(confirmed);
    expect(from.claim({ ...WITHOUT_REPLY, replyPort: 60_001 })).toBe('made');
    const before = recordAt(from.object, family, from.find(seen)!.index);
    // Another state, and a later tick.
    before[0] = 3;
    before[16]! += 1;
    const begun = { id: 3_000 };
    from.begin(begun);
    const { not, dropped } = carrier.carry(from.now);
    expect({ not, dropped }).toEqual({ not: 0, dropped: 1 });
    expect(carrier.to.find(ended)).toBeUndefined();
    const after = recordAt(carrier.to.object, family, carrier.to.find(seen)!.index);
    expect([after[0], after[16]]).toEqual([before[0], before[16]]);
    const kept = ALL.filter((one) => ![ended, anew, WITHOUT_REPLY].includes(one));
    expectSame([...kept, again, { ...WITHOUT_REPLY, replyPort: 60_001 }, begun]);
    expect(auditAndEmpty(carrier.to)).toEqual([]);
  });

  test('one that has the port of an ended one by now takes its place', () => {
    carrier.carry(from.now);
    const ended = CONFIRMED[0]!;
    from.release(ended);
    from.now += 10;
    const next = { id: 3_000, replyPort: 1_024 + ended.id };
    expect(from.begin(next)).toBe('made');
    // Taken out before the claim, so that nothing is left to drop.
    expect(carrier.carry(from.now)).toMatchObject({ new: 1, not: 0, dropped: 0 });
    expect(carrier.to.find(ended)).toBeUndefined();
    expectSame([...ALL.filter((one) => one !== ended), next]);
    expect(auditAndEmpty(carrier.to)).toEqual([]);
  });

  test('one that has begun in the larger table keeps its port', () => {
    carrier.carry(from.now);
    const begun = { id: 3_000, replyPort: 60_000 };
    expect(carrier.to.begin(begun)).toBe('made');
    expect(from.begin({ id: 3_001, replyPort: 60_000 })).toBe('made');
    expect(carrier.carry(from.now)).toMatchObject({ new: 0, not: 1, dropped: 0 });
    expect(carrier.to.findReply(begun)).toMatchObject({ id: begun.id });
    expect(auditAndEmpty(carrier.to)).toEqual([]);
  });

  test.each(['smaller', 'larger'])('what is dropped in the %s table stays so', (size) => {
    carrier.carry(from.now);
    const dropped = CONFIRMED[0]!;
    const seenIn = (table: ConnTable) => {
      const { buffer, byteOffset } = recordAt(table.object, family, table.find(dropped)!.index);
      return new Uint32Array(buffer, byteOffset + AT.seen, 1);
    };
    const longAgo = (from.now - LONG_AGO) >>> 0;
    seenIn(size === 'smaller' ? from : carrier.to)[0] = longAgo;
    for (const round of [2, 3]) {
      carrier.carry(from.now);
      expect([...seenIn(carrier.to)], `round ${round}`).toEqual([longAgo]);
    }
  });

  test('what programs of the larger table do is kept', () => {
    carrier.carry(from.now);
    carrier.to.now = from.now + 10;
    const [changed, begun] = [CONFIRMED[0]!, { id: 3_000 }];
    const record = recordAt(carrier.to.object, family, carrier.to.find(changed)!.index);
    // It was seen a tick later, in another state.
    record[0] = 3;
    record[16]! += 1;
    expect(carrier.to.begin(begun)).toBe('made');
    // Egress was the first to use it, and has sent a packet from this port.
    const answered = { ...WITHOUT_REPLY, replyPort: 60_001 };
    expect(carrier.to.claim(answered)).toBe('made');
    for (const round of [2, 3]) {
      expect(carrier.carry(from.now), `round ${round}`).toMatchObject({ dropped: 0 });
      expect(carrier.to.findReply(answered)).toMatchObject({ id: answered.id });
    }
    expect(record[0]).toBe(3);
    expect(carrier.to.find(begun)).toBeDefined();
    expect(auditAndEmpty(carrier.to)).toEqual([]);
  });
});
