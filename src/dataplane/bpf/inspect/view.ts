// SPDX-License-Identifier: Apache-2.0
// The tables' contents in people's words: which frontend leads to which backends, and what was
// counted. Works on a live agent's tables and on pins without any agent. Reads Tables.
import type { Family } from '../../../model/types.ts';
import { BACKEND_STATE, decodeFrontend } from '../maps/layout.ts';
import type { ArrayTable } from '../maps/tables.ts';
import { allPorts, type Ledger, type PortRecord, type SetRecord } from '../sync/ledger.ts';

export interface FrontendView {
  /** `10.96.0.10:80/TCP`; `*:30080/TCP` for a NodePort. */
  readonly frontend: string;
  readonly family: Family;
  /** `ns/name`. */
  readonly service: string;
  /** Plan key of the service port. */
  readonly port: string;
  /** Backends as `address:port`, in slot order. */
  readonly internal: readonly string[];
  readonly external: readonly string[];
  readonly internalEmpty: 'reject' | 'drop';
  readonly externalEmpty: 'reject' | 'drop';
  readonly affinitySeconds: number;
  readonly connections: number;
  readonly refused: number;
  readonly dropped: number;
  readonly affinityHits: number;
}

export interface BackendView {
  readonly backend: string;
  readonly family: Family;
  readonly service: string;
  readonly port: string;
  readonly id: number;
  readonly generation: number;
  readonly state: 'active' | 'terminating' | 'free' | 'gone';
  readonly isLocal: boolean;
  readonly connections: number;
  readonly open: number;
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

export function* frontendViews(ledger: Ledger): Generator<FrontendView> {
  for (const port of allPorts(ledger)) {
    const shadow = ledger.shadows.backend[port.family];
    const known = new Set(port.backends);
    const members = (set: SetRecord | undefined): readonly string[] =>
      set?.members.map((id) => (known.has(id) ? shadow.text(id) : `id ${id}?`)) ?? [];
    for (const record of port.frontends) {
      if (isRefusal(record.text)) continue;
      const value = decodeFrontend(ledger.shadows.frontend.value(record.id));
      const [connections = 0, refused = 0, dropped = 0, affinityHits = 0] = counters(
        ledger.tables.frontendStat,
        record.id,
      );
      yield {
        frontend: record.text,
        family: port.family,
        service: port.service,
        port: port.key,
        internal: members(record.sets.host),
        external: members(record.sets.outside),
        internalEmpty: value.paths.host.whenEmpty,
        externalEmpty: value.paths.outside.whenEmpty,
        affinitySeconds: value.affinitySeconds,
        connections,
        refused,
        dropped,
        affinityHits,
      };
    }
  }
}

/** Connections of each frontend, without the names of its backends: asked for at every scrape. */
export function* frontendConnections(
  ledger: Ledger,
): Generator<Pick<FrontendView, 'service' | 'port' | 'family' | 'connections'>> {
  for (const { service, key, family, frontends } of allPorts(ledger)) {
    for (const { text, id } of frontends) {
      if (isRefusal(text)) continue;
      const [connections = 0] = counters(ledger.tables.frontendStat, id);
      yield { service, port: key, family, connections };
    }
  }
}

/** What refuses the other ports of a ClusterIP is no frontend that people made. */
const isRefusal = (text: string): boolean => text.endsWith(':*');

export function* backendViews(ledger: Ledger): Generator<BackendView> {
  for (const port of allPorts(ledger)) {
    for (const id of port.backends) yield backendView(ledger, port, id);
  }
}

function backendView(ledger: Ledger, port: PortRecord, id: number): BackendView {
  const shadow = ledger.shadows.backend[port.family];
  const [connections = 0, closed = 0] = counters(ledger.tables.backendStat, id);
  return {
    backend: shadow.text(id),
    family: port.family,
    service: port.service,
    port: port.key,
    id,
    generation: shadow.generation(id),
    state: STATE_NAMES[shadow.state(id)] ?? STATE_NAMES[BACKEND_STATE.FREE],
    isLocal: shadow.isLocal(id),
    connections,
    open: Math.max(0, connections - closed),
  };
}
