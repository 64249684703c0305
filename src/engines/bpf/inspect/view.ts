// SPDX-License-Identifier: Apache-2.0
// Reads the tables into snapshots: frontends with their backends, counters, table usage. Works with a running
// agent and, from the pins, without one.
import { listInSteps, resultOf } from '../../../lib/steps.ts';
import { BPF } from '../../capabilities.ts';
import type { HeldFrontend } from '../../dataplane.ts';
import type {
  BackendView,
  FrontendView,
  PortConnections,
  PortId,
  PortTraffic,
  Snapshot,
  TableFill,
  Traffic,
} from '../../snapshot.ts';
import { livingFlows } from '../flows/sweep/recount.ts';
import type { Totals } from '../flows/traffic/totals.ts';
import { BACKEND_STATE, decodeFrontend } from '../layout/layout.ts';
import { portIdOf } from '../layout/names.ts';
import { adoptInSteps } from '../state/adopt.ts';
import {
  allPorts,
  type FrontendRecord,
  frontendIdOf,
  type Ledger,
  type PortRecord,
  type SetRecord,
} from '../state/ledger.ts';
import type { ArrayTable, Tables } from '../state/tables.ts';

/** Reads the current contents of all tables. @param totals packets of frontends; undefined: not known */
export const snapshotOf = (tables: Tables, totals?: Totals): Snapshot =>
  resultOf(snapshotInSteps(tables, totals));

/** The same in small steps; nothing may be written in between. */
export function* snapshotInSteps(tables: Tables, totals?: Totals): Generator<void, Snapshot> {
  const { ledger } = yield* adoptInSteps(tables);
  return {
    frontends: yield* listInSteps(frontendViews(ledger, totals)),
    backends: yield* listInSteps(backendViews(ledger)),
  };
}

const STATE_NAMES = ['free', 'active', 'terminating', 'gone'] as const;

/** Counters are exact up to 2^53. */
function counters(table: ArrayTable, index: number): readonly number[] {
  const view = table.view(index);
  const at = table.offset(index);
  return Array.from({ length: table.elementSize / 8 }, (_, slot) =>
    Number(view.getBigUint64(at + slot * 8, true)),
  );
}

export function* frontendViews(ledger: Ledger, totals?: Totals): Generator<FrontendView> {
  for (const record of allPorts(ledger)) {
    const cache = ledger.caches.backend[record.family];
    const known = new Set(record.backends);
    const port = portIdOf(record.key);
    const members = (set: SetRecord | undefined): readonly string[] =>
      set?.members.map((id) => (known.has(id) ? cache.text(id) : `id ${id}?`)) ?? [];
    for (const frontend of record.frontends) {
      const id = frontendIdOf(ledger, record, frontend);
      // The entry that refuses the other ports of a ClusterIP is not shown as a frontend.
      if (id.port === undefined) continue;
      yield {
        dataplane: BPF.dataplane,
        id,
        port,
        internal: members(frontend.sets.host),
        external: members(frontend.sets.outside),
        ...frontendFacts(ledger, frontend),
        ...trafficOf(totals?.get(frontend.id)),
      };
    }
  }
}

const trafficOf = (found: Pick<PortTraffic, 'toBackend' | 'toClient'> | undefined) =>
  found && { toBackend: found.toBackend, toClient: found.toClient };

type FrontendFacts = Omit<
  FrontendView,
  'dataplane' | 'id' | 'port' | 'internal' | 'external' | 'toBackend' | 'toClient'
>;

function frontendFacts({ caches, tables }: Ledger, { id }: FrontendRecord): FrontendFacts {
  const value = decodeFrontend(caches.frontend.value(id));
  const [connections = 0, refused = 0, dropped = 0, affinityHits = 0] = counters(
    tables.frontendStat,
    id,
  );
  return {
    internalEmpty: value.rules.host.whenEmpty,
    externalEmpty: value.rules.outside.whenEmpty,
    affinitySeconds: value.affinitySeconds,
    connections,
    refused,
    dropped,
    affinityHits,
  };
}

/** Every entry of the frontend tables, with those that refuse the other ports of a ClusterIP. */
export function* heldFrontends(ledger: Ledger): Generator<HeldFrontend> {
  for (const record of allPorts(ledger)) {
    for (const frontend of record.frontends) {
      const id = frontendIdOf(ledger, record, frontend);
      yield { dataplane: BPF.dataplane, id, service: record.service };
    }
  }
}

/** Connections of each Service port, the sums of its frontends, without backend texts: read at every scrape. */
export function* portConnections(ledger: Ledger): Generator<PortConnections> {
  for (const record of allPorts(ledger)) {
    const sum = { connections: 0, refused: 0, dropped: 0 };
    for (const frontend of record.frontends) {
      if (frontendIdOf(ledger, record, frontend).port === undefined) continue;
      const [connections = 0, refused = 0, dropped = 0] = counters(
        ledger.tables.frontendStat,
        frontend.id,
      );
      sum.connections += connections;
      sum.refused += refused;
      sum.dropped += dropped;
    }
    yield { port: portIdOf(record.key), ...sum };
  }
}

/** The packets of each Service port: the sum of its frontends. `read` is called when the first is asked for. */
export function* portTraffic(
  ledger: Ledger,
  read: () => Totals | undefined,
): Generator<PortTraffic> {
  const totals = read();
  if (totals === undefined) return;
  for (const record of allPorts(ledger)) {
    const found = record.frontends
      .filter((frontend) => frontendIdOf(ledger, record, frontend).port !== undefined)
      .flatMap(({ id }) => totals.get(id) ?? []);
    if (found.length === 0) continue;
    yield {
      port: portIdOf(record.key),
      toBackend: sumOf(found.map(({ toBackend }) => toBackend)),
      toClient: sumOf(found.map(({ toClient }) => toClient)),
    };
  }
}

const sumOf = (all: readonly Traffic[]): Traffic => ({
  packets: all.reduce((sum, { packets }) => sum + packets, 0),
  bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
});

export function* backendViews(ledger: Ledger): Generator<BackendView> {
  for (const record of allPorts(ledger)) {
    const port = portIdOf(record.key);
    for (const id of record.backends) yield backendView(ledger, record, port, id);
  }
}

function backendView(
  ledger: Ledger,
  { family }: PortRecord,
  port: PortId,
  id: number,
): BackendView {
  const cache = ledger.caches.backend[family];
  const [connections = 0, closed = 0] = counters(ledger.tables.backendStat, id);
  return {
    dataplane: BPF.dataplane,
    backend: cache.text(id),
    port,
    id,
    generation: cache.generation(id),
    state: STATE_NAMES[cache.state(id)] ?? STATE_NAMES[BACKEND_STATE.FREE],
    isLocal: cache.isLocal(id),
    connections,
    open: Math.max(0, connections - closed),
    flows: livingFlows(ledger.tables.backendFlows, id),
  };
}

export function tableFill(ledger: Ledger): readonly TableFill[] {
  const { tables, backendIds, blocks, serviceIds } = ledger;
  const { frontend, slotBlock, serviceName, sourceRange } = tables;
  const frontends = { IPv4: 0, IPv6: 0 };
  for (const port of allPorts(ledger)) frontends[port.family] += port.frontends.length;
  return [
    { name: frontend.IPv4.name, used: frontends.IPv4, capacity: frontend.IPv4.capacity },
    { name: frontend.IPv6.name, used: frontends.IPv6, capacity: frontend.IPv6.capacity },
    { name: 'backend ids', used: backendIds.used(), capacity: backendIds.capacity },
    { name: slotBlock.name, used: blocks.used(), capacity: blocks.capacity },
    { name: serviceName.name, used: serviceIds.used(), capacity: serviceIds.capacity },
    { name: sourceRange.name, used: ledger.sourceRanges.size, capacity: sourceRange.capacity },
  ];
}
