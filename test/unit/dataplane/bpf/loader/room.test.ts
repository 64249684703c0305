// SPDX-License-Identifier: Apache-2.0
// Blocks of slots that must stay: the members of every set, and the table of one that has weights.
import { expect, test } from 'vitest';
import { checkRoom, type Opened } from '../../../../../src/dataplane/bpf/loader/migration/room.ts';
import {
  EMPTY_SET,
  encodeFrontend,
  encodeU32,
  type RuleValue,
  SIZE,
  SLOTS_PER_BLOCK,
} from '../../../../../src/dataplane/bpf/maps/layout.ts';
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
