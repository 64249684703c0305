// SPDX-License-Identifier: Apache-2.0
// What we believe the kernel holds, per service port, and which ids and lines are taken.
// Backends, sets and frontends that leave are retired first and reused only after release():
// a program that still runs may hold them.
// Floor 3a: pure bookkeeping over Tables.
import type { Family } from '../../model/types.ts';
import type { ServiceKey } from '../../plan/types.ts';
import { createIdPool, type IdPool } from './id-pool.ts';
import { BACKEND_STATE, backendStateOffset, type FrontendKey, SLOTS_PER_LINE } from './layout.ts';
import { createLinePool, type LinePool, type LineRun } from './line-pool.ts';
import { element, type Tables } from './tables.ts';

export interface BackendRecord {
  readonly id: number;
  readonly generation: number;
  state: number;
  isLocal: boolean;
}

/** An immutable set in the kernel: `members` are backend ids in slot order, ascending. */
export interface SetRecord {
  readonly line: number;
  readonly generation: number;
  readonly members: readonly number[];
  /** The kernel's copy was found changed: never used again, retired once no frontend refers to it. */
  isDamaged?: boolean;
}

export interface FrontendRecord {
  readonly id: number;
  readonly key: FrontendKey;
  readonly keyBytes: Uint8Array;
  readonly value: Uint8Array;
  readonly internal: SetRecord | undefined;
  readonly external: SetRecord | undefined;
}

/** One service port of one family as the kernel holds it. */
export interface PortRecord {
  /** Key of the plan's ServicePortPlan. */
  readonly key: string;
  readonly service: ServiceKey;
  readonly family: Family;
  readonly serviceId: number;
  /** By `address:port`; ACTIVE and TERMINATING ones. */
  readonly backends: Map<string, BackendRecord>;
  readonly sets: Set<SetRecord>;
  /** By frontend text. */
  readonly frontends: Map<string, FrontendRecord>;
}

export interface Retired {
  readonly backends: { readonly family: Family; readonly id: number }[];
  readonly lines: LineRun[];
  readonly frontendIds: number[];
  readonly serviceIds: number[];
}

export interface Ledger {
  readonly tables: Tables;
  readonly backendIds: IdPool;
  readonly frontendIds: IdPool;
  readonly serviceIds: IdPool;
  readonly lines: LinePool;
  /** Every port record, by Service and then by its plan key. */
  readonly services: Map<ServiceKey, Map<string, PortRecord>>;
  /** Which port owns a frontend, by family and frontend text. */
  readonly owners: Map<string, PortRecord>;
  retired: Retired;
  setGeneration: number;
  /** Frontends whose address is any address of the node. */
  nodePorts: number;
}

export interface TakenIds {
  readonly backendIds: Iterable<number>;
  readonly frontendIds: Iterable<number>;
  readonly serviceIds: Iterable<number>;
  readonly lines: Iterable<LineRun>;
}

const NOTHING_TAKEN: TakenIds = { backendIds: [], frontendIds: [], serviceIds: [], lines: [] };

export const noneRetired = (): Retired => ({
  backends: [],
  lines: [],
  frontendIds: [],
  serviceIds: [],
});

export function createLedger(tables: Tables, taken: TakenIds = NOTHING_TAKEN): Ledger {
  return {
    tables,
    backendIds: createIdPool(
      Math.min(tables.backend.IPv4.length, tables.backend.IPv6.length, tables.backendStat.length),
      taken.backendIds,
    ),
    frontendIds: createIdPool(tables.frontendStat.length, taken.frontendIds),
    serviceIds: createIdPool(tables.serviceName.capacity + 1, taken.serviceIds),
    lines: createLinePool(tables.setLine.length, taken.lines),
    services: new Map(),
    owners: new Map(),
    retired: noneRetired(),
    setGeneration: 0,
    nodePorts: 0,
  };
}

/** `ns/name:port/TCP/IPv4` -> an empty record of that port. */
export function createPortRecord(key: string, family: Family, serviceId: number): PortRecord {
  const [namespace = '', nameAndPort = ''] = key.split('/', 2);
  const [name = ''] = nameAndPort.split(':', 1);
  return {
    key,
    service: `${namespace}/${name}`,
    family,
    serviceId,
    backends: new Map(),
    sets: new Set(),
    frontends: new Map(),
  };
}

export function addPort(ledger: Ledger, record: PortRecord): void {
  const ports = ledger.services.get(record.service);
  if (ports === undefined) ledger.services.set(record.service, new Map([[record.key, record]]));
  else ports.set(record.key, record);
}

export function removePort(ledger: Ledger, record: PortRecord): void {
  const ports = ledger.services.get(record.service);
  ports?.delete(record.key);
  if (ports?.size === 0) ledger.services.delete(record.service);
}

export function* allPorts(ledger: Ledger): Generator<PortRecord> {
  for (const ports of ledger.services.values()) yield* ports.values();
}

export const ownerKey = (family: Family, text: string): string => `${family} ${text}`;

export const linesOf = (members: readonly number[]): number =>
  Math.ceil(members.length / SLOTS_PER_LINE);

export const isRetiredEmpty = (retired: Retired): boolean =>
  retired.backends.length === 0 &&
  retired.lines.length === 0 &&
  retired.frontendIds.length === 0 &&
  retired.serviceIds.length === 0;

/** Hands over what was retired so far; the caller waits out a grace period, then calls release(). */
export function takeRetired(ledger: Ledger): Retired {
  const batch = ledger.retired;
  ledger.retired = noneRetired();
  return batch;
}

/** Makes retired ids and lines usable again. Only after every program that could hold them ended. */
export function release(ledger: Ledger, batch: Retired): void {
  for (const { family, id } of batch.backends) {
    element(ledger.tables.backend[family], id)[backendStateOffset(family)] = BACKEND_STATE.FREE;
    ledger.backendIds.give(id);
  }
  for (const run of batch.lines) ledger.lines.give(run.first, run.lines);
  for (const id of batch.frontendIds) ledger.frontendIds.give(id);
  for (const id of batch.serviceIds) ledger.serviceIds.give(id);
}
