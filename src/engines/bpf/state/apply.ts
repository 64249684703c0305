// SPDX-License-Identifier: Apache-2.0
// Plan -> kernel for some Services: make before break, one batch per table.
//   1 backends and slot blocks (shared memory, not referred to yet)
//   2 satellites: what programs look up besides a frontend, present before the first frontend that needs it
//   3 frontends (each replaced atomically: a socket sees the old set or the new one)
//   4 removed frontends   5 removed backends: TERMINATING or GONE; retire ids and blocks
//   6 satellites that no frontend needs any more
// If a write fails, its Service stays as it was in the kernel, and the failure is reported.
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { Plan, ServiceKey, ServicePortPlan } from '../../../plan/types.ts';
import type { FailedEntry, SyncReport } from '../../dataplane.ts';
import { type FrontendId, frontendEntry, frontendTextIn } from '../../entry.ts';
import { heldTexts } from '../../router/share.ts';
import { decodeFrontendKey, encodeU32 } from '../layout/layout.ts';
import { SATELLITES } from '../rows/satellites/satellites.ts';
import { portFailure, type Sync } from '../rows/satellites/sync.ts';
import {
  type FrontendPut,
  finalizePort,
  forgetFrontend,
  ownFrontend,
  preparePort,
} from '../rows/service-port/update.ts';
import { TableFull } from './allocation/allocation.ts';
import { writeFailure } from './failure.ts';
import { frontendIdOf, type Ledger, type PortRecord } from './ledger.ts';
import { type RefusedWrite, storeWords } from './tables.ts';

export function applyPlan(ledger: Ledger, plan: Plan, changed: Iterable<ServiceKey>): SyncReport {
  const startedAt = performance.now();
  const sync: Sync = {
    ledger,
    prepared: [],
    touched: new Map(),
    deletes: { IPv4: [], IPv6: [] },
    emptied: [],
    failed: [],
    applied: 0,
  };
  for (const service of changed) prepareService(sync, plan, service);
  for (const satellite of SATELLITES) satellite.put(sync);
  for (const family of FAMILIES) putFrontends(sync, family);
  for (const family of FAMILIES) deleteFrontends(sync, family);
  for (const [record, port] of sync.touched) {
    if (finalizePort(ledger, record, port)) sync.emptied.push(record);
  }
  for (const satellite of SATELLITES.toReversed()) satellite.remove(sync);
  for (const { record, noRoom } of sync.prepared) {
    if (noRoom !== undefined) sync.failed.push(portFailure(record, noRoom));
  }
  return {
    applied: sync.applied,
    failed: sync.failed,
    elapsedMs: performance.now() - startedAt,
  };
}

export function isLosing(ledger: Ledger, plan: Plan, service: ServiceKey): boolean {
  const held = ledger.services.get(service);
  if (held === undefined) return false;
  const wanted = new Set(heldTexts(plan.services.get(service)));
  return held.some(({ family, frontends }) =>
    frontends.some(({ text }) => !wanted.has(frontendTextIn(family, text))),
  );
}

function prepareService(sync: Sync, plan: Plan, service: ServiceKey): void {
  const held = sync.ledger.services.get(service) ?? [];
  const ports: readonly ServicePortPlan[] = plan.services.get(service)?.ports ?? [];
  for (const record of held) {
    if (!ports.some(({ key }) => key === record.key)) dropPort(sync, record);
  }
  for (const port of ports) {
    try {
      const prepared = preparePort(sync.ledger, service, port);
      sync.prepared.push(prepared);
      sync.touched.set(prepared.record, port);
      for (const frontend of prepared.drops) {
        sync.deletes[port.family].push({ record: prepared.record, frontend });
      }
    } catch (error) {
      if (!(error instanceof TableFull)) throw error;
      const failure = { code: 'MAP_FULL', map: error.map, reason: error.message } as const;
      sync.failed.push(portFailure({ key: port.key, service }, failure));
    }
  }
}

function dropPort(sync: Sync, record: PortRecord): void {
  sync.touched.set(record, undefined);
  for (const frontend of record.frontends) sync.deletes[record.family].push({ record, frontend });
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

/** @returns those whose key could not be written */
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
    ledger.frontendIds.give(owned.put.frontend.id);
    const id = decodeFrontendKey(owned.put.key, family);
    sync.failed.push(frontendFailure(owned.record, id, table.name, refusal));
  }
  return without;
}

function frontendFailure(
  { service }: PortRecord,
  frontend: FrontendId,
  table: string,
  { code }: RefusedWrite,
): FailedEntry {
  return { ...frontendEntry(frontend), ...writeFailure(table, code), service };
}

/** Only frontends still owned by the port that lost them: another port may own them by now. */
function deleteFrontends(sync: Sync, family: Family): void {
  const { ledger } = sync;
  const table = ledger.tables.frontend[family];
  const gone = sync.deletes[family].filter(
    ({ record, frontend }) => ledger.owners[family].get(frontend.text) === record,
  );
  // Copies, because the cache returns views.
  const keys = gone.map(({ frontend }) => ledger.caches.frontend.key(frontend.id, family).slice());
  const refusedAt = new Map(table.delete(keys).map((refusal) => [refusal.index, refusal]));
  for (const [index, { record, frontend }] of gone.entries()) {
    const refusal = refusedAt.get(index);
    if (refusal !== undefined) {
      const id = frontendIdOf(ledger, record, frontend);
      sync.failed.push(frontendFailure(record, id, table.name, refusal));
      continue;
    }
    sync.applied++;
    forgetFrontend(ledger, record, frontend.text);
  }
}
