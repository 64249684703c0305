// SPDX-License-Identifier: Apache-2.0
// Tables in plain memory with the kernel's rules (capacity, whole values replaced), for tests and for benches
// with --memory.

import {
  frontendKeySize,
  RANGES,
  RANGES_PER_WORD,
  SIZE,
} from '../../../src/engines/bpf/layout/layout.ts';
import { PACKET_SIZE } from '../../../src/engines/bpf/layout/packet-layout.ts';
import type {
  ArrayTable,
  DirectTables,
  HashTable,
  RefusedWrite,
  Tables,
} from '../../../src/engines/bpf/state/tables.ts';
import type { Family } from '../../../src/model/types.ts';

/** Elements that are looked at between two pauses. */
const SCANNED = 4_096;

export interface TableSizes {
  readonly frontends: number;
  readonly backends: number;
  readonly slotBlocks: number;
  readonly services: number;
  /** 1,024 if absent. */
  readonly sourceRanges?: number;
}

export interface MemoryArray extends ArrayTable {
  readonly bytes: Uint8Array;
}

export interface MemoryTables extends Tables {
  readonly slotBlock: MemoryArray;
  readonly frontendRecord: MemoryArray;
  readonly backend: Readonly<Record<Family, MemoryArray>>;
  readonly direct: DirectTables;
  readonly notService: MemoryArray;
  readonly runtime: MemoryArray;
  /** Called before each hash write; returns an errno name to refuse it (fault injection). */
  fault: (table: string, key: Uint8Array) => string | undefined;
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

export function memoryArray(name: string, length: number, elementSize: number): MemoryArray {
  const bytes = new Uint8Array(length * elementSize);
  const view = new DataView(bytes.buffer);
  return {
    ...{ name, length, elementSize, bytes },
    view: () => view,
    offset: (index) => index * elementSize,
    scan(isKept) {
      for (let index = 0; index < length; index += 1) isKept(view, index * elementSize, index);
    },
    *scanInSteps(isKept) {
      for (let index = 0; index < length; index += 1) {
        isKept(view, index * elementSize, index);
        if (index % SCANNED === 0) yield;
      }
    },
  };
}

export function createMemoryTables(sizes: TableSizes): MemoryTables {
  const tables: { fault: MemoryTables['fault'] } = { fault: () => undefined };
  const hash = (name: string, capacity: number, keySize: number, valueSize: number): HashTable => {
    const full = name === 'fl_range' ? 'ENOSPC' : 'E2BIG';
    const held = new Map<string, { key: Uint8Array; value: Uint8Array }>();
    return {
      name,
      capacity,
      readAll: () => [...held.values()],
      get: (key) => held.get(hex(key))?.value,
      put(keys, values) {
        const refused: RefusedWrite[] = [];
        for (const [index, key] of keys.entries()) {
          const value = values[index];
          if (key.length !== keySize || value?.length !== valueSize) {
            throw new TypeError(`${name}: key or value of the wrong size`);
          }
          const isFull = held.size >= capacity && !held.has(hex(key));
          const code = isFull ? full : tables.fault(name, key);
          if (code === undefined) held.set(hex(key), { key: key.slice(), value: value.slice() });
          else refused.push({ index, code });
        }
        return refused;
      },
      delete(keys) {
        for (const key of keys) {
          if (key.length !== keySize) throw new TypeError(`${name}: key of the wrong size`);
          held.delete(hex(key));
        }
        return [];
      },
    };
  };
  const frontendTable = (family: Family): HashTable =>
    hash(
      family === 'IPv4' ? 'fl_frontend4' : 'fl_frontend6',
      sizes.frontends,
      frontendKeySize(family),
      SIZE.frontend_ref,
    );
  return Object.assign(tables, {
    frontend: { IPv4: frontendTable('IPv4'), IPv6: frontendTable('IPv6') },
    frontendRecord: memoryArray('fl_frontend', sizes.frontends, SIZE.frontend),
    backend: {
      IPv4: memoryArray('fl_backend4', sizes.backends, SIZE.backend4),
      IPv6: memoryArray('fl_backend6', sizes.backends, SIZE.backend6),
    },
    slotBlock: memoryArray('fl_slot_block', sizes.slotBlocks, SIZE.slot_block),
    serviceName: hash('fl_service', sizes.services, 4, SIZE.service_name),
    frontendStat: memoryArray('fl_fe_stat', sizes.frontends, SIZE.frontend_stat),
    backendStat: memoryArray('fl_be_stat', sizes.backends, SIZE.backend_stat),
    backendFlows: memoryArray('fl_be_flows', sizes.backends, SIZE.backend_flows),
    nodeAddress: {
      IPv4: hash('fl_node_addr4', 1024, 4, SIZE.node_address),
      IPv6: hash('fl_node_addr6', 1024, 16, SIZE.node_address),
    },
    sourceRange: hash(
      'fl_range',
      sizes.sourceRanges ?? 1024,
      SIZE.source_range_key,
      SIZE.source_range,
    ),
    direct: {
      backendNode: memoryArray('fl_backend_node', sizes.backends, PACKET_SIZE.backend_node),
      localBackend: hash('fl_local_be', 1024, PACKET_SIZE.local_backend_key, 4),
    },
    notService: memoryArray('fl_not_service', (3 * RANGES) / RANGES_PER_WORD, 8),
    runtime: memoryArray('fl_runtime', 1, SIZE.runtime_flags),
  });
}
