// SPDX-License-Identifier: Apache-2.0
// One operation after the other on a table of connections, on one CPU.
import { afterEach, describe, expect, test } from 'vitest';
import { indexMaskOf } from '../../../../src/engines/bpf/conn/sizes.ts';
import { auditAndEmpty, countsOf, recordAt, slotsOf } from './support/audit.ts';
import { BUSY, ConnTable, FAMILIES } from './support/conn-table.ts';
import { type Connection, UDP_NEW } from './support/operation.ts';

/** Half-open ones have three of seven slots. */
const MOST_HALF = 3;
const SLOTS = 7;

let table: ConnTable;
afterEach(() => table.close());

const numbered = (count: number, from = 0): readonly Connection[] =>
  Array.from({ length: count }, (_, n) => ({ id: from + n }));

function swap(words: Uint32Array, [first, second]: readonly number[]): void {
  [words[first!], words[second!]] = [words[second!]!, words[first!]!];
}

describe.each(FAMILIES)('%s', (family) => {
  const open = (buckets: number): ConnTable => {
    table = new ConnTable(family, buckets);
    return table;
  };

  /** Confirmed. */
  function establish(connections: readonly Connection[]): void {
    for (const connection of connections) {
      expect(table.begin(connection)).toBe('made');
      expect(table.confirm(connection)).toBe(true);
    }
  }

  test('a connection is found by the packets of both sides until it ends', () => {
    open(100);
    const connection = { id: 7 };
    expect(table.find(connection)).toBeUndefined();
    expect(table.begin(connection)).toBe('made');
    const found = table.find(connection);
    expect(found).toMatchObject({ id: 7, isHalf: true });
    expect(table.findReply(connection)).toMatchObject({ id: 7, index: found?.index });
    expect(table.find({ id: 8 })).toBeUndefined();
    expect(table.findReply({ id: 8 })).toBeUndefined();
    expect(table.confirm(connection)).toBe(true);
    expect(table.find(connection)).toMatchObject({ index: found?.index, isHalf: false });
    expect(table.release(connection)).toBe(true);
    expect(table.find(connection)).toBeUndefined();
    expect(table.findReply(connection)).toBeUndefined();
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('one that is begun already is not begun again, also while another CPU writes it', () => {
    open(100);
    table.begin({ id: 7 });
    expect(table.begin({ id: 7 })).toBe('doubled');
    const words = new Uint32Array(table.index('client'));
    const at = words.findIndex((word) => word !== 0);
    words[at] = (words[at]! | BUSY) >>> 0;
    expect(table.find({ id: 7 })).toBeUndefined();
    expect(table.begin({ id: 7 })).toBe('doubled');
    words[at] = (words[at]! & ~BUSY) >>> 0;
    expect(countsOf(table.object, family)).toMatchObject({ claimed: 1, doubled: 2 });
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('a record that its proof does not fit is not believed', () => {
    open(100);
    table.begin({ id: 7 });
    const { index } = table.find({ id: 7 })!;
    const record = recordAt(table.object, family, index);
    // Not the addresses of the packet, its progress, and when it was seen.
    const proved = [2, 5, 6, 8, 12, 20, 36, 44, 46, 48 + (family === 'IPv4' ? 8 : 32)];
    for (const at of proved) {
      record[at]! ^= 1;
      expect(table.find({ id: 7 }), `byte ${at}`).toBeUndefined();
      record[at]! ^= 1;
    }
    for (const at of [0, 1, 4, 16, 24, 28, 32, 38]) record[at]! ^= 1;
    expect(table.find({ id: 7 })).toBeDefined();
  });

  test('a word that leads to another record leads to none', () => {
    open(1);
    const pair = numbered(2);
    for (const one of pair) expect(table.begin(one)).toBe('made');
    const found = () => pair.map((one) => [table.find(one)?.id, table.findReply(one)?.id]);
    const clients = new Uint32Array(table.index('client'));
    const replies = new Uint32Array(table.index('reply'));
    const tags = [...clients.keys()].filter((at) => clients[at] !== 0);
    const words = [...replies.keys()].filter((at) => replies[at] !== 0);
    const swapNumbers = () => {
      const [one, other] = words.map((at) => replies[at]!);
      // The lower bits of a reply's word are the number of its record.
      const differ = (one! ^ other!) & indexMaskOf(1);
      for (const at of words) replies[at] = (replies[at]! ^ differ) >>> 0;
    };
    swap(clients, tags);
    swapNumbers();
    expect(found()).toEqual(pair.map(() => [undefined, undefined]));
    swap(clients, tags);
    swapNumbers();
    expect(found()).toEqual(pair.map(({ id }) => [id, id]));
  });

  test.each([
    ['client', 4],
    ['reply', 4],
  ] as const)('without calls, by its %s: by the only word with the tag', (side, width) => {
    open(2);
    const here = () => table.here({ id: 7 }, side);
    expect(here()).toBe('nowhere');
    table.begin({ id: 7 });
    expect(here()).toBe(table.find({ id: 7 })?.index);
    const words = new Uint8Array(table.index(side));
    const byte = words.findIndex((value) => value !== 0);
    const at = byte - (byte % width);
    const bucket = at - (at % (8 * width));
    const other = at === bucket ? at + width : bucket;
    words.copyWithin(other, at, at + width);
    expect(here()).toBe('unsure');
    words.fill(0, bucket, bucket + SLOTS * width);
    expect(here()).toBe('nowhere');
    words[bucket + SLOTS * width] = 1; // keys that are in another one of their buckets
    expect(here()).toBe('unsure');
    words.fill(0);
  });

  test('of two connections with one reply tuple the second gets none', () => {
    open(100);
    expect(table.begin({ id: 1, replyPort: 5_000 })).toBe('made');
    expect(table.begin({ id: 2, replyPort: 5_000 })).toBe('taken');
    expect(table.find({ id: 2 })).toBeUndefined();
    expect(table.begin({ id: 2, replyPort: 5_001 })).toBe('made');
    expect(table.findReply({ id: 1, replyPort: 5_000 })).toMatchObject({ id: 1 });
    table.release({ id: 1 });
    expect(table.begin({ id: 3, replyPort: 5_000 })).toBe('made');
    expect(table.findReply({ id: 1, replyPort: 5_000 })).toMatchObject({ id: 3 });
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('the reply tuple of a masqueraded connection is claimed at egress', () => {
    open(100);
    expect(table.begin({ id: 1, replyPort: 0 })).toBe('made');
    expect(table.begin({ id: 2, replyPort: 5_000 })).toBe('made');
    expect(table.claim({ id: 1, replyPort: 5_000 })).toBe('taken');
    expect(table.find({ id: 1 })).toMatchObject({ replyPort: 0 });
    expect(table.claim({ id: 1, replyPort: 5_001 })).toBe('made');
    expect(table.find({ id: 1 })).toMatchObject({ replyPort: 5_001 });
    expect(table.findReply({ id: 1, replyPort: 5_001 })).toMatchObject({ id: 1 });
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('half-open connections have three slots of a bucket, and the oldest goes', () => {
    open(1);
    for (const { id } of numbered(10)) {
      expect(table.begin({ id })).toBe('made');
      table.now += 1;
    }
    const live = numbered(10).filter(({ id }) => table.find({ id }) !== undefined);
    expect(live.map(({ id }) => id)).toEqual([7, 8, 9]);
    expect(countsOf(table.object, family)).toMatchObject({ claimed: 10, released: 7, evicted: 7 });
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('confirmed ones never go, and a table full of them has no room', () => {
    open(1);
    establish(numbered(4));
    expect(numbered(3, 10).map((one) => table.begin(one))).toEqual(['made', 'made', 'made']);
    establish(numbered(3, 20));
    expect(numbered(3, 10).map((one) => table.find(one))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(table.begin({ id: 30 })).toBe('no room');
    expect([...numbered(4), ...numbered(3, 20)].filter((one) => !table.find(one))).toEqual([]);
    expect(countsOf(table.object, family)).toMatchObject({ evicted: 3, noRoom: 1 });
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('the tuple of a question that may still be answered is given to nobody else', () => {
    open(1);
    const question = { id: 1, protocol: 'udp', replyPort: 5_000 } as const;
    table.begin(question);
    table.now += 1;
    for (const one of numbered(MOST_HALF, 10)) table.begin(one);
    expect(table.find(question)).toBeUndefined();
    const other = { id: 2, protocol: 'udp', replyPort: 5_000 } as const;
    table.now += UDP_NEW - 2;
    expect(table.begin(other)).toBe('taken');
    // A tomb's time is rounded up to units of so many ticks.
    table.now += 64;
    expect(table.begin(other)).toBe('made');
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test.each([
    ['one that was answered', { protocol: 'udp', state: 'answered' }],
    ['one of TCP', { protocol: 'tcp' }],
    ['the client’s own', { protocol: 'udp', masquerade: false }],
  ] as const)('the tuple of %s is free at once', (_, kind) => {
    open(1);
    table.begin({ id: 1, replyPort: 5_000, ...kind });
    table.now += 1;
    for (const one of numbered(MOST_HALF, 10)) table.begin(one);
    expect(table.find({ id: 1, ...kind })).toBeUndefined();
    expect(table.begin({ id: 1, replyPort: 5_000, ...kind })).toBe('made');
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('tombs give way where replies have no slot left', () => {
    open(1);
    for (const { id } of numbered(20)) {
      expect(table.begin({ id, protocol: 'udp' })).toBe('made');
      table.release({ id, protocol: 'udp' });
      table.now += 64;
    }
    const next = { id: 30, protocol: 'udp' } as const;
    expect(table.begin({ ...next, replyPort: 1_024 + 19 })).toBe('taken');
    expect(table.begin({ ...next, replyPort: 1_024 })).toBe('made');
    expect(countsOf(table.object, family).noReply).toBe(0);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('a reply without a slot is counted', () => {
    open(1);
    establish(numbered(SLOTS));
    const replies = new Uint32Array(table.index('reply'));
    table.release({ id: 0 });
    for (const [at, word] of replies.entries()) {
      if (word === 0 && at % (SLOTS + 1) < SLOTS) replies[at] = 1 << 20;
    }
    expect(table.begin({ id: 30 })).toBe('no reply');
    expect(table.find({ id: 30 })).toBeUndefined();
    expect(countsOf(table.object, family).noReply).toBe(1);
  });

  test('a key that is not in its first bucket is not begun again, and keeps its reply tuple', () => {
    open(400);
    const all = numbered(1_700);
    establish(all);
    const elsewhere = new Uint32Array(table.index('client')).filter((_, at) => at % 8 === 7);
    expect(elsewhere.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(20);
    const spare = { id: 5_000, replyPort: 0 };
    const again = all.map((one) => [
      table.begin(one),
      table.begin({ ...spare, replyPort: 1_024 + one.id }),
    ]);
    expect(again.filter(([same, reply]) => same !== 'doubled' || reply !== 'taken')).toEqual([]);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test('a tomb keeps its tuple in each bucket of the key, though nothing counts it', () => {
    open(16);
    const question = { id: 1, protocol: 'udp', replyPort: 5_000 } as const;
    table.begin(question);
    table.release(question);
    const replies = new Uint32Array(table.index('reply'));
    const tomb = replies.find((word) => word !== 0)!;
    const begun: string[] = [];
    for (let at = 0; at < replies.length; at += SLOTS + 1) {
      replies.fill(0);
      replies[at] = tomb;
      begun.push(table.begin({ ...question, id: 2 }));
      table.release({ ...question, id: 2 });
    }
    expect(begun.filter((one) => one === 'taken')).toHaveLength(4);
    expect(begun.filter((one) => one === 'made')).toHaveLength(begun.length - 4);
    replies.fill(0);
  });

  test('each key has four buckets: 78 % of all slots are taken', () => {
    open(400);
    const all = numbered(2_200);
    establish(all);
    const elsewhere = new Uint32Array(table.index('client')).filter((_, at) => at % 8 === 7);
    expect(elsewhere.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(20);
    expect(all.filter((one) => !table.find(one) || !table.findReply(one))).toEqual([]);
    expect(slotsOf(table.object, family)).toHaveLength(all.length);
    expect(auditAndEmpty(table)).toEqual([]);
  });
});
