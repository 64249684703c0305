// SPDX-License-Identifier: Apache-2.0
// What must stay in a smaller map: connections; blocks of slots of every set, and the table of one that has weights.
import { describe, expect, test } from 'vitest';
import {
  EMPTY_SET,
  encodeFrontend,
  encodeU32,
  type RuleValue,
  SIZE,
  SLOTS_PER_BLOCK,
} from '../../../../../src/engines/bpf/layout/layout.ts';
import type { PinnedMap } from '../../../../../src/engines/bpf/layout/versions.ts';
import { checkRoom, type Opened } from '../../../../../src/engines/bpf/migration/room.ts';
import type { BpfMap } from '../../../../../src/sys/native.ts';

const EMPTY: RuleValue = {
  ...EMPTY_SET,
  whenEmpty: 'reject',
  masquerade: false,
  keepsLocalClient: false,
  hasSourceRanges: false,
};
const HASH = 1;
const ARRAY = 2;
const MAX_ENTRIES = 4096;

const fieldsOfRules = [0, 1, 2, 3]
  .map(
    (at) =>
      `rule[${at}].block ${at * 64} 32,rule[${at}].members ${at * 64 + 32} 16,rule[${at}].kind ${at * 64 + 48} 8`,
  )
  .join();

const mapOf = (
  type: number,
  get: (key: Uint8Array) => Uint8Array | undefined,
  ids: number[] = [],
) =>
  ({
    info: { type, flags: 0, keySize: SIZE.frontend4_key, valueSize: 4, maxEntries: MAX_ENTRIES },
    get,
    readBatch: () => ({
      keys: new Uint8Array(SIZE.frontend4_key * ids.length),
      values: Uint8Array.from(ids.flatMap((id) => [...encodeU32(id)])),
      count: ids.length,
      next: undefined,
    }),
  }) as unknown as BpfMap;

/** One frontend with this rule, and a table of so many entries at the block. */
function openedWith(rule: Partial<RuleValue>, table: { block: number; length: number }): Opened {
  const pod: RuleValue = { ...EMPTY, ...rule };
  const value = encodeFrontend({
    key: { family: 'IPv4', address: '10.96.0.10', port: 80, protocol: 'TCP' },
    rules: { unknown: EMPTY, host: EMPTY, pod, outside: EMPTY },
    serviceId: 1,
    affinitySeconds: 0,
  });
  const block = (key: Uint8Array) => {
    const at = key[0] === table.block ? table.length : 0;
    return Uint8Array.from([...encodeU32(at), ...new Uint8Array(4 * (SLOTS_PER_BLOCK - 1))]);
  };
  const maps: Readonly<Record<string, ReturnType<Opened>>> = {
    fl_frontend4: {
      from: mapOf(HASH, () => undefined, [1]),
      value: { fields: 'frontend_id 0 32', bytes: 4 },
    },
    fl_frontend: {
      from: mapOf(ARRAY, () => value),
      value: { fields: fieldsOfRules, bytes: SIZE.frontend },
    },
    fl_slot_block: {
      from: mapOf(ARRAY, block),
      value: { fields: 'slot[0] 0 32', bytes: SIZE.slot_block },
    },
  };
  return (name) => maps[name];
}

test.each<[string, Partial<RuleValue>, number]>([
  ['members alone', { kind: 'random', block: 5, members: 15 }, 6],
  ['one more of them', { kind: 'round-robin', block: 5, members: 16 }, 7],
  ['a table behind the members', { kind: 'weighted-random', block: 5, members: 15 }, 6 + 7],
])('%s', (_, rule, needed) => {
  const opened = openedWith(rule, { block: 6, length: 100 });
  const check = (maxEntries: number) => () =>
    checkRoom([{ map: 'fl_slot_block', ...opened('fl_slot_block')!, maxEntries }], opened);
  expect(check(needed)).not.toThrow();
  expect(check(needed - 1)).toThrow(`needs ${needed}: set slot-blocks to at least ${needed}`);
});

describe('connections', () => {
  const WORDS = 8;
  /** A clients' index with so many connections: seven of eight words are slots, the last one is a count. */
  const HALF = 0x2000_0000;
  function indexWith(connections: number, bits = 0) {
    const words = new Uint32Array(4_096 * WORDS);
    for (let bucket = 0; bucket < 4_096; bucket += 1) words[bucket * WORDS + 7] = 5;
    for (let n = 0; n < connections; n += 1)
      words[Math.floor(n / 7) * WORDS + (n % 7)] = bits + n + 1;
    const mapped = new Set<ArrayBuffer>();
    const from = {
      ...{ info: { type: ARRAY, maxEntries: 4_096 } },
      mmap() {
        mapped.add(words.buffer);
        return words.buffer;
      },
      munmap: (memory: ArrayBuffer) => mapped.delete(memory),
    } as unknown as BpfMap;
    return { from, mapped };
  }
  const checkOf = (map: PinnedMap, from: BpfMap, maxEntries: number) => () =>
    checkRoom(
      [{ map, from, value: { fields: 'word[0] 0 32', bytes: 32 }, maxEntries }],
      () => undefined,
    );

  // 595 are 85 % of the 700 slots of 100 buckets.
  test.each(['fl_client4', 'fl_client6'] as const)(
    '%s has room for those that there are',
    (map) => {
      const { from, mapped } = indexWith(595);
      expect(checkOf(map, from, 100)).not.toThrow();
      expect(checkOf(map, from, 99)).toThrow(
        `${map} would have room for 99 entries, and needs 100: set flows to at least 595`,
      );
      expect(mapped.size).toBe(0);
    },
  );

  test('half-open ones need none: they give their slots', () => {
    expect(checkOf('fl_client4', indexWith(595, HALF).from, 2)).not.toThrow();
  });

  test('as large as it was it is not looked at, and empty it may be as small as any', () => {
    const unread = { info: { type: ARRAY, maxEntries: 100 } } as unknown as BpfMap;
    expect(checkOf('fl_client4', unread, 100)).not.toThrow();
    expect(checkOf('fl_client4', indexWith(0).from, 2)).not.toThrow();
  });

  // Their size follows from that of the clients' index, which is asked.
  test.each(['fl_conn4', 'fl_reply6', 'fl_conn_traf4'] as const)('%s is not asked', (map) => {
    const unread = { info: { type: ARRAY, maxEntries: 100 } } as unknown as BpfMap;
    expect(checkOf(map, unread, 1)).not.toThrow();
  });
});
