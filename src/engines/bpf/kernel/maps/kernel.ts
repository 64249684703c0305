// SPDX-License-Identifier: Apache-2.0
// Tables over real BPF maps: arrays as shared memory, hash maps through batch calls.
// Only this file makes system calls for tables.
import type { BpfMap } from '../../../../sys/native.ts';
import { createChunkedMmap } from '../../state/chunked-mmap.ts';
import type { ArrayTable, HashTable, RefusedWrite, Tables } from '../../state/tables.ts';

export type MapByName = (name: string) => BpfMap;

/** Entries per batch call: bounds both the copy and the time in the kernel. */
const BATCH_ENTRIES = 1024;

export const TABLE_MAPS = [
  'fl_frontend4',
  'fl_frontend6',
  'fl_frontend',
  'fl_backend4',
  'fl_backend6',
  'fl_slot_block',
  'fl_service',
  'fl_fe_stat',
  'fl_be_stat',
  'fl_be_flows',
  'fl_node_addr4',
  'fl_node_addr6',
  'fl_range',
  'fl_not_service',
  'fl_runtime',
] as const;

export function kernelTables(map: MapByName): Tables {
  return {
    frontend: { IPv4: hashTable(map('fl_frontend4')), IPv6: hashTable(map('fl_frontend6')) },
    frontendRecord: arrayTable(map('fl_frontend')),
    backend: { IPv4: arrayTable(map('fl_backend4')), IPv6: arrayTable(map('fl_backend6')) },
    slotBlock: arrayTable(map('fl_slot_block')),
    serviceName: hashTable(map('fl_service')),
    frontendStat: arrayTable(map('fl_fe_stat')),
    backendStat: arrayTable(map('fl_be_stat')),
    backendFlows: arrayTable(map('fl_be_flows')),
    nodeAddress: {
      IPv4: hashTable(map('fl_node_addr4')),
      IPv6: hashTable(map('fl_node_addr6')),
    },
    sourceRange: hashTable(map('fl_range')),
    notService: arrayTable(map('fl_not_service')),
    runtime: arrayTable(map('fl_runtime')),
  };
}

export function arrayTable(map: BpfMap): ArrayTable {
  const { name, maxEntries, valueSize } = map.info;
  const elementSize = Math.ceil(valueSize / 8) * 8;
  return createChunkedMmap(
    { name, length: maxEntries, elementSize },
    { map: (offset, length) => map.mmap(offset, length), unmap: (memory) => map.munmap(memory) },
  );
}

export function hashTable(map: BpfMap): HashTable {
  const { name, maxEntries, keySize, valueSize } = map.info;
  return {
    name,
    capacity: maxEntries,
    get: (key) => map.get(key),
    readAll() {
      const { keys, values, count } = map.readAll();
      return Array.from({ length: count }, (_, index) => ({
        key: keys.slice(index * keySize, (index + 1) * keySize),
        value: values.slice(index * valueSize, (index + 1) * valueSize),
      }));
    },
    put: (keys, values) => {
      const write = (from: number, to: number): { count: number; code: string | undefined } => {
        const result = map.putBatch(concat(keys, from, to), concat(values, from, to));
        return { count: result.count, code: result.error?.code };
      };
      return inBatches(keys.length, write);
    },
    delete: (keys) =>
      inBatches(keys.length, (from, to) => {
        const result = map.deleteBatch(concat(keys, from, to));
        return { count: result.count, code: result.error?.code };
      }),
  };
}

/** A refused entry is recorded and skipped: it never holds up the entries after it. */
function inBatches(
  total: number,
  write: (from: number, to: number) => { count: number; code: string | undefined },
): readonly RefusedWrite[] {
  const refused: RefusedWrite[] = [];
  for (let from = 0; from < total; ) {
    const { count, code } = write(from, Math.min(total, from + BATCH_ENTRIES));
    from += count;
    if (code === undefined) continue;
    refused.push({ index: from, code });
    from++;
  }
  return refused;
}

function concat(parts: readonly Uint8Array[], from: number, to: number): Uint8Array {
  const size = parts[from]?.length ?? 0;
  const whole = new Uint8Array((to - from) * size);
  for (let index = from; index < to; index++) {
    whole.set(parts[index] ?? new Uint8Array(), (index - from) * size);
  }
  return whole;
}
