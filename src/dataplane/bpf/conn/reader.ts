// SPDX-License-Identifier: Apache-2.0
// Reads all connections of one family from the shared memory of their table, while programs change it: no system call
// for a record, and in steps that take well under the pause that an event loop may have (inSlices runs them).
import type { Family } from '../../../model/types.ts';
import type { ChunkMemory } from '../maps/chunked-mmap.ts';
import { CONN_BUSY, CONN_SIZE, CONN_SLOTS, ConnRecord } from '../maps/conn-layout.ts';
import type { Proof } from './proof.ts';

export interface ConnMemory {
  readonly family: Family;
  readonly buckets: number;
  /** fl_client4 or fl_client6, and fl_conn4 or fl_conn6. */
  readonly client: ChunkMemory;
  readonly conn: ChunkMemory;
  readonly proof: Proof;
}

export interface ReadCounts {
  readonly read: number;
  /** Begun, or ended, at each attempt to read them. */
  readonly missed: number;
}

/** Of a step. Both arrays are then divided at multiples of every page size. */
export const STEP_BUCKETS = 2048;
const BUCKET_WORDS = CONN_SIZE.client_bucket / 4;
const ATTEMPTS = 3;

/** @param visit gets the same record each time, and keeps nothing of it */
export function* readConns(
  memory: ConnMemory,
  visit: (record: ConnRecord) => void,
): Generator<void, ReadCounts> {
  const record = new ConnRecord(memory.family);
  const counts = { read: 0, missed: 0 };
  for (let first = 0; first < memory.buckets; first += STEP_BUCKETS) {
    const buckets = Math.min(STEP_BUCKETS, memory.buckets - first);
    const words = mapped(
      memory.client,
      first * CONN_SIZE.client_bucket,
      buckets * CONN_SIZE.client_bucket,
    );
    try {
      const size = CONN_SLOTS * record.words.byteLength;
      const records = mapped(memory.conn, first * size, buckets * size);
      try {
        readPart({ first, words, records, proof: memory.proof }, record, counts, visit);
      } finally {
        memory.conn.unmap(records.buffer);
      }
    } finally {
      memory.client.unmap(words.buffer);
    }
    yield;
  }
  return counts;
}

const mapped = ({ map }: ChunkMemory, offset: number, length: number) =>
  new Uint32Array(map(offset, length));

interface Part {
  /** Number of its first bucket. */
  readonly first: number;
  readonly words: Uint32Array;
  readonly records: Uint32Array;
  readonly proof: Proof;
}

function readPart(
  part: Part,
  record: ConnRecord,
  counts: { read: number; missed: number },
  visit: (record: ConnRecord) => void,
): void {
  const { words } = part;
  for (let bucket = 0; bucket * BUCKET_WORDS < words.length; bucket += 1) {
    for (let slot = 0; slot < CONN_SLOTS; slot += 1) {
      const at = bucket * BUCKET_WORDS + slot;
      if (words[at] === 0) continue;
      record.index = (part.first + bucket) * CONN_SLOTS + slot;
      const isRead = read(part, at, bucket * CONN_SLOTS + slot, record);
      if (isRead) visit(record);
      if (isRead) counts.read += 1;
      else if (words[at] !== 0) counts.missed += 1;
    }
  }
}

/**
 * A copy is one record's if its word is the same before and after, and its proof fits: the word alone does not tell a
 * connection from the next one of the same addresses, nor does it tell anything where reads overtake each other.
 */
function read(
  { words, records, proof }: Part,
  at: number,
  place: number,
  record: ConnRecord,
): boolean {
  const copy = record.words;
  const from = place * copy.length;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const word = words[at] ?? 0;
    if (word === 0) return false;
    if (word >= CONN_BUSY) continue;
    for (let index = 0; index < copy.length; index += 1) copy[index] = records[from + index] ?? 0;
    record.word = word;
    if (record.proof === proof(copy) && words[at] === word) return true;
  }
  return false;
}
