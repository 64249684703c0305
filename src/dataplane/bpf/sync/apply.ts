// SPDX-License-Identifier: Apache-2.0
// Plan -> kernel for some Services: make before break, one batch per table.
//   1 backends and set blocks (shared memory, referred to by nobody)   2 service names
//   3 frontends (each path is one word: a program sees the old set or the new one)
//   4 frontends that are gone   5 backends that left: TERMINATING or GONE   6 retire ids and blocks
// A refused write leaves its Service as it was in the kernel and is reported.
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { Plan, ServiceKey, ServicePortPlan } from '../../../plan/types.ts';
import type { ApplyReport, FailedEntry } from '../../dataplane.ts';
import { encodeServiceName, encodeU32, NODE_PORTS_OFFSET, SIZE } from '../maps/layout.ts';
import { nameOf } from '../maps/names.ts';
import { type RefusedWrite, storeWords } from '../maps/tables.ts';
import { TableFull } from './allocation.ts';
import { addPort, type FrontendRecord, type Ledger, type PortRecord } from './ledger.ts';
import {
  type FrontendPut,
  forgetFrontend,
  ownFrontend,
  type PreparedPort,
  preparePort,
  settlePort,
} from './port-update.ts';

interface Sync {
  readonly ledger: Ledger;
  readonly prepared: PreparedPort[];
  /** Records to settle, with what the plan has of them: whose flows stay. */
  readonly touched: Map<PortRecord, ServicePortPlan | undefined>;
  readonly deletes: Record<Family, { record: PortRecord; frontend: FrontendRecord }[]>;
  readonly failed: FailedEntry[];
  applied: number;
}

export function applyPlan(ledger: Ledger, plan: Plan, changed: Iterable<ServiceKey>): ApplyReport {
  const startedAt = performance.now();
  const sync: Sync = {
    ledger,
    prepared: [],
    touched: new Map(),
    deletes: { IPv4: [], IPv6: [] },
    failed: [],
    applied: 0,
  };
  for (const service of changed) prepareService(sync, plan, service);
  putNames(sync);
  for (const family of FAMILIES) putFrontends(sync, family);
  for (const family of FAMILIES) deleteFrontends(sync, family);
  settle(sync);
  countNodePorts(ledger);
  return {
    applied: sync.applied,
    failed: sync.failed,
    elapsedMs: performance.now() - startedAt,
  };
}

function prepareService(sync: Sync, plan: Plan, service: ServiceKey): void {
  const held = sync.ledger.services.get(service) ?? [];
  const ports: readonly ServicePortPlan[] = plan.services.get(service)?.ports ?? [];
  const wanted = new Set(ports.map((port) => port.key));
  for (const record of held) {
    if (!wanted.has(record.key)) dropPort(sync, record);
  }
  const owners = clusterIpOwners(ports);
  for (const port of ports) {
    try {
      const prepared = preparePort(sync.ledger, service, port, owners.has(port));
      sync.prepared.push(prepared);
      sync.touched.set(prepared.record, port);
      for (const frontend of prepared.drops) {
        sync.deletes[port.family].push({ record: prepared.record, frontend });
      }
    } catch (error) {
      if (!(error instanceof TableFull)) throw error;
      sync.failed.push({ id: port.key, reason: error.message, service });
    }
  }
}

/** In each family the first port with a ClusterIP answers for all ports the Service does not have. */
function clusterIpOwners(ports: readonly ServicePortPlan[]): ReadonlySet<ServicePortPlan> {
  const owners = new Map<Family, ServicePortPlan>();
  for (const port of ports) {
    if (owners.has(port.family)) continue;
    if (port.frontends.some(({ kind }) => kind === 'ClusterIP')) owners.set(port.family, port);
  }
  return new Set(owners.values());
}

function dropPort(sync: Sync, record: PortRecord): void {
  sync.touched.set(record, undefined);
  for (const frontend of record.frontends) sync.deletes[record.family].push({ record, frontend });
}

/** New service ids get their name first, so that whoever reads a frontend can tell whose it is. */
function putNames(sync: Sync): void {
  const fresh = sync.prepared.filter((prepared) => prepared.isNew);
  const table = sync.ledger.tables.serviceName;
  const refused = table.put(
    fresh.map(({ record }) => encodeU32(record.serviceId)),
    encodeNames(fresh.map(({ record }) => record.key)),
  );
  const refusedAt = new Map(refused.map((refusal) => [refusal.index, refusal]));
  for (const [index, prepared] of fresh.entries()) {
    const refusal = refusedAt.get(index);
    if (refusal === undefined) {
      addPort(sync.ledger, prepared.record);
      continue;
    }
    prepared.undo();
    sync.prepared.splice(sync.prepared.indexOf(prepared), 1);
    sync.touched.delete(prepared.record);
    sync.failed.push(failure(prepared.record, prepared.record.key, table.name, refusal));
  }
}

function encodeNames(portKeys: readonly string[]): readonly Uint8Array[] {
  const size = SIZE.service_name;
  const names = new Uint8Array(portKeys.length * size);
  return portKeys.map((key, index) =>
    encodeServiceName(nameOf(key), names.subarray(index * size, (index + 1) * size)),
  );
}

interface OwnedPut {
  readonly record: PortRecord;
  readonly put: FrontendPut;
}

/** Frontends are written whole before a key leads to them; of known ones the words change in place. */
function putFrontends(sync: Sync, family: Family): void {
  const { tables } = sync.ledger;
  const puts: readonly OwnedPut[] = sync.prepared
    .filter(({ record }) => record.family === family)
    .flatMap(({ record, puts: list }) => list.map((put) => ({ record, put })));
  for (const { put } of puts) storeWords(tables.frontendRecord, put.frontend.id, put.value);
  const refusedPuts = putKeys(
    sync,
    family,
    puts.filter(({ put }) => put.isNew),
  );
  for (const owned of puts) {
    if (refusedPuts.has(owned)) continue;
    sync.applied++;
    const loser = ownFrontend(sync.ledger, owned.record, owned.put);
    if (loser !== undefined && !sync.touched.has(loser)) sync.touched.set(loser, undefined);
  }
}

/** @returns those that got no key */
function putKeys(sync: Sync, family: Family, puts: readonly OwnedPut[]): ReadonlySet<OwnedPut> {
  const { ledger } = sync;
  const table = ledger.tables.frontend[family];
  const refused = table.put(
    puts.map(({ put }) => put.key),
    puts.map(({ put }) => encodeU32(put.frontend.id)),
  );
  const without = new Set<OwnedPut>();
  for (const refusal of refused) {
    const owned = puts[refusal.index];
    if (owned === undefined) continue;
    without.add(owned);
    const { text, id } = owned.put.frontend;
    ledger.frontendIds.give(id);
    sync.failed.push(failure(owned.record, text, table.name, refusal));
  }
  return without;
}

/** The --map-size name of a hash table. */
const flagOf = (table: string): string => (table === 'fl_service' ? 'service-ports' : 'frontends');

function failure(
  record: PortRecord,
  id: string,
  table: string,
  refusal: RefusedWrite,
): FailedEntry {
  const why =
    refusal.code === 'E2BIG'
      ? `${table} is full: raise --map-size ${flagOf(table)}=… or remove Services; the old state stays in the kernel`
      : `${table} refused it (${refusal.code}); it will be tried again`;
  return { id, reason: why, service: record.service };
}

/** Only frontends still owned by the port that lost them: another may have taken them over. */
function deleteFrontends(sync: Sync, family: Family): void {
  const { ledger } = sync;
  const table = ledger.tables.frontend[family];
  const gone = sync.deletes[family].filter(
    ({ record, frontend }) => ledger.owners[family].get(frontend.text) === record,
  );
  // Copies: the shadow gives views.
  const keys = gone.map(({ frontend }) => ledger.shadows.frontend.key(frontend.id, family).slice());
  const refusedAt = new Map(table.delete(keys).map((refusal) => [refusal.index, refusal]));
  for (const [index, { record, frontend }] of gone.entries()) {
    const refusal = refusedAt.get(index);
    if (refusal !== undefined) {
      sync.failed.push(failure(record, frontend.text, table.name, refusal));
      continue;
    }
    sync.applied++;
    forgetFrontend(ledger, record, frontend.text);
  }
}

function settle(sync: Sync): void {
  const emptied: Uint8Array[] = [];
  for (const [record, port] of sync.touched) {
    if (settlePort(sync.ledger, record, port)) emptied.push(encodeU32(record.serviceId));
  }
  sync.ledger.tables.serviceName.delete(emptied);
}

/** Sockets skip the second look-up while no NodePort exists. */
function countNodePorts({ tables, nodePorts }: Ledger): void {
  const { runtime } = tables;
  runtime.view(0).setUint32(runtime.offset(0) + NODE_PORTS_OFFSET, nodePorts, true);
}
