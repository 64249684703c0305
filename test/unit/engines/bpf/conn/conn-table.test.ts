// SPDX-License-Identifier: Apache-2.0
// Single records of a table, over maps that refuse what the kernel's refuse: a mapping beyond their end, or not at a page.
import { describe, expect, test } from 'vitest';
import {
  connTables,
  expire,
  hasConns,
  isExpired,
} from '../../../../../src/engines/bpf/conn/conn-table.ts';
import { readConns } from '../../../../../src/engines/bpf/conn/reader.ts';
import { PACKET_SIZE } from '../../../../../src/engines/bpf/layout/packet-layout.ts';

const PAGE = 4096;
/** Of the clients' index, of records, and of traffic: bytes of an element. */
const SIZE = { client: 32, conn4: 64, conn6: 128, traffic: 24 } as const;
const SLOTS = 7;

function mapOf(maxEntries: number, size: number) {
  const bytes = new ArrayBuffer(maxEntries * size);
  const mapped = new Map<ArrayBuffer, number>();
  return {
    bytes,
    mapped,
    info: { maxEntries },
    get: () => undefined,
    mmap(offset: number, length: number): ArrayBuffer {
      if (offset % PAGE !== 0) throw new Error('not at a page');
      if (length === 0 || offset + length > bytes.byteLength) throw new Error('beyond its end');
      // As the addon does it.
      for (const [held, at] of mapped) if (at === offset && held.byteLength === length) return held;
      const memory = bytes.slice(offset, offset + length);
      mapped.set(memory, offset);
      return memory;
    },
    /** What was written is in the map. */
    munmap(memory: ArrayBuffer): void {
      const offset = mapped.get(memory);
      if (offset === undefined) throw new Error('not mapped');
      new Uint8Array(bytes).set(new Uint8Array(memory), offset);
      mapped.delete(memory);
      structuredClone(memory, { transfer: [memory] });
    },
  };
}

function open(buckets: number) {
  const maps = new Map<string, ReturnType<typeof mapOf>>(
    ([4, 6] as const).flatMap((digit) => [
      [`fl_client${digit}`, mapOf(buckets, SIZE.client)] as const,
      [`fl_conn${digit}`, mapOf(SLOTS * buckets, SIZE[`conn${digit}`])] as const,
      [`fl_conn_traf${digit}`, mapOf(SLOTS * buckets, SIZE.traffic)] as const,
    ]),
  );
  const other = mapOf(1, PACKET_SIZE.packet_settings);
  const tables = connTables((name) => maps.get(name) ?? other);
  const wordsOf = (name: string): Uint32Array => new Uint32Array(maps.get(name)!.bytes);
  return { tables, wordsOf, maps };
}

describe.each([
  ['IPv4', 'fl_conn4', 16],
  ['IPv6', 'fl_conn6', 32],
] as const)('%s', (family, map, words) => {
  const BORN = 77;
  const NOW = 5;

  test.each([
    ['the first record', 1, 0],
    ['the last one of a table of one bucket', 1, 6],
    ['one behind the first chunk', 200, 1_100],
    ['the last one', 200, 1_399],
  ])('%s is expired, and nothing else changes', (_, buckets, index) => {
    const { tables, wordsOf, maps } = open(buckets);
    wordsOf(map)[index * words + 5] = BORN;
    const before = wordsOf(map).slice();
    expect(expire(tables[family], index, BORN + 1, NOW), 'another connection').toBe(false);
    expect(wordsOf(map)).toEqual(before);
    expect(expire(tables[family], index, BORN, NOW)).toBe(true);
    const seen = wordsOf(map)[index * words + 4]!;
    expect(isExpired(seen, NOW)).toBe(true);
    before[index * words + 4] = seen;
    expect(wordsOf(map)).toEqual(before);
    expect(maps.get(map)?.mapped.size).toBe(0);
  });

  test.each([1, 70])('each record of %i buckets while they are read', (buckets) => {
    const { tables, wordsOf } = open(buckets);
    const whole = { ...tables[family], proof: () => 0 };
    wordsOf(map.replace('conn', 'client')).fill(1);
    const expired: number[] = [];
    const visit = ({ index }: { readonly index: number }): void => {
      if (expire(whole, index, 0, NOW)) expired.push(index);
    };
    for (const _ of readConns(whole, visit));
    expect(expired).toEqual(Array.from({ length: SLOTS * buckets }, (_, index) => index));
  });

  test('a word of the clients’ index is a connection', () => {
    const { tables, wordsOf } = open(3);
    expect(hasConns(tables)).toBe(false);
    wordsOf(map.replace('conn', 'client'))[2 * 8 + 6] = 1;
    expect(hasConns(tables)).toBe(true);
  });
});

test.each([
  ['now', 0, false],
  ['by another CPU, which is ahead', -1, false],
  ['half a year ago', 2 ** 30, false],
  ['longer ago', 2 ** 30 + 1, true],
])('seen %s, also where the clock wraps', (_, ago, expected) => {
  for (const now of [3 * 2 ** 29, 10, 2 ** 32 - 1]) {
    expect(isExpired((now - ago) >>> 0, now), `now ${now}`).toBe(expected);
  }
});
