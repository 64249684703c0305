// SPDX-License-Identifier: Apache-2.0
// A table of connections at rest, read from its memory: every record is found where it is, by both of its tuples, and nothing is left
// when all have ended.
import type { Family } from '../../../../../src/model/types.ts';
import { type BpfObject, possibleCpus } from '../../../../../src/sys/native.ts';
import { BUSY, type ConnTable, HALF, SLOTS, suffixOf } from './conn-table.ts';
import { AT, RECORD_SIZE } from './operation.ts';

const TOMB = 0x40000000;
const COUNTS = [
  'claimed',
  'released',
  'halfClaimed',
  'halfGone',
  'evicted',
  'noRoom',
  'noReply',
  'doubled',
] as const;
export type Counts = Readonly<Record<(typeof COUNTS)[number], number>>;

/** Of all CPUs. */
export function countsOf(object: BpfObject, family: Family): Counts {
  const counters = new BigUint64Array(object.map('fl_conn_count').mmap());
  const sum = (at: number): number => {
    let total = 0;
    for (let cpu = 0; cpu < possibleCpus(); cpu += 1) {
      total += Number(counters[8 * (2 * cpu + Number(family === 'IPv6')) + at]);
    }
    return total;
  };
  return Object.fromEntries(COUNTS.map((name, at) => [name, sum(at)])) as unknown as Counts;
}

interface Slot {
  readonly index: number;
  readonly word: number;
}

/** The clients' slots that are not free. */
export function slotsOf(object: BpfObject, family: Family): readonly Slot[] {
  const words = new Uint32Array(object.map(`fl_client${suffixOf(family)}`).mmap());
  const slots: Slot[] = [];
  for (const [at, word] of words.entries()) {
    const slot = at % (SLOTS + 1);
    if (slot < SLOTS && word !== 0) slots.push({ index: ((at - slot) / 8) * SLOTS + slot, word });
  }
  return slots;
}

/** All of them, one after the other. */
function recordsOf(object: BpfObject, family: Family): Uint8Array {
  return new Uint8Array(object.map(`fl_conn${suffixOf(family)}`).mmap());
}

export function recordAt(object: BpfObject, family: Family, index: number): Uint8Array {
  const size = RECORD_SIZE[family];
  return recordsOf(object, family).subarray(index * size, (index + 1) * size);
}

/** Seven slots, then how many keys are in another one of their buckets. */
const REPLY_WORDS = 8;
const REPLY_ELSEWHERE = 7;

/** How many replies are not in their first bucket. */
function elsewhereOf(replies: Uint32Array): number {
  const counts = replies.filter((_, at) => at % REPLY_WORDS === REPLY_ELSEWHERE);
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The replies' slots that are of a record. */
function repliesOf(replies: Uint32Array): number {
  const isSlot = (at: number) => at % REPLY_WORDS < REPLY_ELSEWHERE;
  return replies.filter((word, at) => isSlot(at) && word !== 0 && !(word & TOMB)).length;
}

/**
 * Ends every connection.
 * @returns what is wrong, a line each
 */
export function auditAndEmpty(table: ConnTable): readonly string[] {
  const { object, family } = table;
  const wrong: string[] = [];
  const slots = slotsOf(object, family);
  const replies = new Uint32Array(object.map(`fl_reply${suffixOf(family)}`).mmap());
  const all = recordsOf(object, family);
  const size = RECORD_SIZE[family];
  const records = slots.map(({ index }) => all.slice(index * size, (index + 1) * size));
  const hasReply = (record: Uint8Array) => record[AT.replyPort]! + record[AT.replyPort + 1]! > 0;
  const hasMiddle = (record: Uint8Array) => (record[AT.flags]! & 1) > (record[AT.marks]! & 1);
  for (const [at, { index, word }] of slots.entries()) {
    const record = records[at]!;
    if (word & BUSY) wrong.push(`record ${index} is busy for ever`);
    if (table.findRecord(record, 'client')?.index !== index) wrong.push(`${index} is not found`);
    if (hasReply(record) && table.findRecord(record, 'reply')?.index !== index)
      wrong.push(`${index} is not found by its reply`);
  }
  const expected = records.filter(hasReply).length + records.filter(hasMiddle).length;
  if (repliesOf(replies) !== expected)
    wrong.push(`${repliesOf(replies)} replies, and not ${expected}`);
  const { claimed, released, halfClaimed, halfGone } = countsOf(object, family);
  const half = slots.filter(({ word }) => word & HALF).length;
  if (claimed - released !== slots.length)
    wrong.push(`${claimed - released} are counted, and ${slots.length} are there`);
  if (halfClaimed - halfGone !== half)
    wrong.push(`${halfClaimed - halfGone} half-open are counted, and ${half} are there`);
  for (const record of records) table.releaseRecord(record);
  const clients = new Uint32Array(object.map(`fl_client${suffixOf(family)}`).mmap());
  if (clients.some((word) => word !== 0)) wrong.push('a client is left, or counted elsewhere');
  if (repliesOf(replies) + elsewhereOf(replies) > 0)
    wrong.push('a reply is left, or counted elsewhere');
  return wrong;
}
