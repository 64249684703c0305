// SPDX-License-Identifier: Apache-2.0
// The table of connections of both families over its BPF maps (bpf/packet/conn/maps.h).
import { FAMILIES, type Family } from '../../../model/types.ts';
import { CONN_SIZE } from '../layout/conn-layout.ts';
import { encodeU32 } from '../layout/layout.ts';
import { decodeKeptSettings } from '../layout/packet-layout.ts';
import type { ChunkMemory } from '../state/chunked-mmap.ts';
import { proofOf } from './proof.ts';
import type { ConnMemory } from './reader.ts';

export const CONN_MAPS = [
  ...(['fl_conn4', 'fl_conn6', 'fl_conn_traf4', 'fl_conn_traf6'] as const),
  ...(['fl_client4', 'fl_client6', 'fl_reply4', 'fl_reply6', 'fl_conn_count'] as const),
] as const;
export type ConnMap = (typeof CONN_MAPS)[number];

export type ConnTables = Readonly<Record<Family, ConnMemory>>;

/** As src/sys/native.ts has it. */
interface MappedMap {
  readonly info: { readonly maxEntries: number };
  get(key: Uint8Array): Uint8Array | undefined;
  mmap(offset: number, length: number): ArrayBuffer;
  munmap(mapped: ArrayBuffer): void;
}

type MapByName = (name: ConnMap | 'fl_packet') => MappedMap;

/** With the key of the programs as it is now: before the first sync there is none, and no connection. */
export function connTables(map: MapByName): ConnTables {
  const settings = map('fl_packet').get(encodeU32(0));
  const secret = (settings && decodeKeptSettings(settings)?.secret) ?? 0n;
  const [IPv4, IPv6] = FAMILIES.map((family) => memoryOf(map, family, secret));
  return { IPv4, IPv6 } as ConnTables;
}

export const digitOf = (family: Family): 4 | 6 => (family === 'IPv4' ? 4 : 6);

function memoryOf(map: MapByName, family: Family, secret: bigint): ConnMemory {
  const digit = digitOf(family);
  const client = map(`fl_client${digit}`);
  return {
    family,
    buckets: client.info.maxEntries,
    client: memory(client),
    conn: memory(map(`fl_conn${digit}`)),
    traffic: memory(map(`fl_conn_traf${digit}`)),
    proof: proofOf(family, secret),
  };
}

const memory = (map: MappedMap): ChunkMemory => ({
  map: (offset, length) => map.mmap(offset, length),
  unmap: (mapped) => map.munmap(mapped),
});

/** Whether any slot is taken: without reading a record. */
export const hasConns = (tables: ConnTables): boolean =>
  FAMILIES.some((family) => {
    const { client, buckets } = tables[family];
    const mapped = client.map(0, buckets * CONN_SIZE.client_bucket);
    try {
      return new BigUint64Array(mapped).some((words) => words !== 0n);
    } finally {
      client.unmap(mapped);
    }
  });

/** 312 days, of a clock that goes round after 834: no packet is so old. */
const LONG_AGO = 3 * 2 ** 29;

/**
 * The connection has expired: its next packet begins another one, and the sweep takes the record. One store, while
 * programs use the record. False: it has another connection by now.
 */
export function expire(memory: ConnMemory, index: number, bornTick: number, now: number): boolean {
  const size = memory.family === 'IPv4' ? CONN_SIZE.conn4 : CONN_SIZE.conn6;
  const page = Math.floor((index * size) / PAGE) * PAGE;
  const at = index * size - page;
  // Never a whole record: a mapping of the same length as a reader's would be the same one, and end with this.
  const mapped = memory.conn.map(page, at + 4 * WORDS);
  try {
    const words = new Uint32Array(mapped, at, WORDS);
    if (words[5] !== bornTick) return false;
    words[4] = (now - LONG_AGO) >>> 0;
    return true;
  } finally {
    memory.conn.unmap(mapped);
  }
}

/** A multiple of every page size. */
const PAGE = 65_536;
/** Up to the birth. */
const WORDS = 6;

/** It was expired by hand, or nobody has swept for half a year. */
export const isExpired = (seenTick: number, now: number): boolean =>
  ((now - seenTick) | 0) > 2 ** 30;
