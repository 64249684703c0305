// SPDX-License-Identifier: Apache-2.0
// Reads all connections of one family from the shared memory of their table, while programs change it: no system call
// for a record, and in steps that take well under the pause that an event loop may have (inSlices runs them).
import type { Family } from '../../../model/types.ts';
import { CONN_BUSY, CONN_SIZE, CONN_SLOTS, ConnRecord } from '../layout/conn-layout.ts';
import type { ChunkMemory } from '../state/chunked-mmap.ts';
import { CHUNK_BYTES as PAGE } from '../state/chunked-mmap.ts';
import type { Proof } from './proof.ts';

export interface ConnMemory {
  readonly family: Family;
  readonly buckets: number;
  /** fl_client4 or fl_client6, and fl_conn4 or fl_conn6. */
  readonly client: ChunkMemory;
  readonly conn: ChunkMemory;
  /** fl_conn_traf4 or fl_conn_traf6; undefined: packets and bytes are not read. */
  readonly traffic?: ChunkMemory | undefined;
  readonly proof: Proof;
}

export interface ReadCounts {
  readonly read: number;
  /** Begun, or ended, at each attempt to read them. */
  readonly missed: number;
}

/** Of a step. The index and the records are then divided at multiples of every page size. */
export const STEP_BUCKETS = 2048;
const BUCKET_WORDS = CONN_SIZE.client_bucket / 4;
const ATTEMPTS = 3;

/** The record of this number as it is now; undefined: it has none, or one that changes. */
export function readConn(memory: ConnMemory, index: number): ConnRecord | undefined {
  const bucket = Math.floor(index / CONN_SLOTS);
  const record = new ConnRecord(memory.family);
  const first = Math.floor(bucket / STEP_BUCKETS) * STEP_BUCKETS;
  const buckets = Math.min(STEP_BUCKETS, memory.buckets - first);
  const size = CONN_SLOTS * record.words.byteLength;
  const bytes = CONN_SIZE.client_bucket;
  const words = mapped(memory.client, first * bytes, buckets * bytes);
  const records = mapped(memory.conn, first * size, buckets * size);
  const traffic = mappedTraffic(memory, first, buckets);
  try {
    const part = { first, words, records, traffic, proof: memory.proof };
    record.index = index;
    const at = (bucket - first) * BUCKET_WORDS + (index % CONN_SLOTS);
    return read(part, at, index - first * CONN_SLOTS, record) ? record : undefined;
  } finally {
    memory.client.unmap(words.buffer);
    memory.conn.unmap(records.buffer);
    if (traffic !== undefined) memory.traffic?.unmap(traffic.buffer);
  }
}

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
      const traffic = mappedTraffic(memory, first, buckets);
      try {
        const { proof } = memory;
        readPart({ first, words, records, traffic, proof }, record, counts, visit);
      } finally {
        memory.conn.unmap(records.buffer);
        if (traffic !== undefined) memory.traffic?.unmap(traffic.buffer);
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

/** Its parts begin within a page, which is mapped from its start. */
function mappedTraffic({ traffic }: ConnMemory, first: number, buckets: number) {
  if (traffic === undefined) return undefined;
  const size = CONN_SLOTS * CONN_SIZE.conn_traffic;
  const before = (first * size) % PAGE;
  return new Uint32Array(traffic.map(first * size - before, before + buckets * size), before);
}

interface Part {
  /** Number of its first bucket. */
  readonly first: number;
  readonly words: Uint32Array;
  readonly records: Uint32Array;
  readonly traffic: Uint32Array | undefined;
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

const TRAFFIC_WORDS = CONN_SIZE.conn_traffic / 4;
/** Of the upper half of a word of bytes: the rest is of packets. */
const UPPER_BYTES = 2 ** 22;

/** struct conn_traffic. Bytes are exact up to 2^53. */
function readTraffic(traffic: Uint32Array, place: number, counts: Float64Array): void {
  const at = place * TRAFFIC_WORDS;
  const [upper, upperReply] = [traffic[at + 1] ?? 0, traffic[at + 5] ?? 0];
  counts[0] = (traffic[at + 2] ?? 0) + Math.floor(upper / UPPER_BYTES) * 2 ** 32;
  counts[1] = (traffic[at] ?? 0) + (upper % UPPER_BYTES) * 2 ** 32;
  counts[2] = (traffic[at + 3] ?? 0) + Math.floor(upperReply / UPPER_BYTES) * 2 ** 32;
  counts[3] = (traffic[at + 4] ?? 0) + (upperReply % UPPER_BYTES) * 2 ** 32;
}

/**
 * A copy is one record's if its word is the same before and after, and its proof fits: the word alone does not tell a
 * connection from the next one of the same addresses, nor does it tell anything where reads overtake each other.
 */
function read(
  { words, records, traffic, proof }: Part,
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
    if (traffic !== undefined) readTraffic(traffic, place, record.traffic);
    if (record.proof === proof(copy) && words[at] === word) return true;
  }
  return false;
}
