// SPDX-License-Identifier: Apache-2.0
// The tables' contents in people's words: which frontend leads to which backends, and what was
// counted. Works on a live agent's tables and on pins without any agent. Floor 3a: reads Tables.
import type { Family } from '../../model/types.ts';
import { BACKEND_STATE, decodeFrontend } from './layout.ts';
import {
  allPorts,
  type BackendRecord,
  type Ledger,
  type PortRecord,
  type SetRecord,
} from './ledger.ts';
import { type ArrayTable, element } from './tables.ts';

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
  const at = element(table, index);
  const view = new DataView(at.buffer, at.byteOffset, at.byteLength);
  return Array.from({ length: table.elementSize / 8 }, (_, slot) =>
    Number(view.getBigUint64(slot * 8, true)),
  );
}

export function* frontendViews(ledger: Ledger): Generator<FrontendView> {
  for (const port of allPorts(ledger)) {
    const names = new Map([...port.backends].map(([key, backend]) => [backend.id, key]));
    const members = (set: SetRecord | undefined): readonly string[] =>
      set?.members.map((id) => names.get(id) ?? `id ${id}?`) ?? [];
    for (const [frontend, record] of port.frontends) {
      // What refuses the other ports of a ClusterIP is no frontend that people made.
      if (record.key.protocol === undefined) continue;
      const value = decodeFrontend(record.value);
      const [connections = 0, refused = 0, dropped = 0, affinityHits = 0] = counters(
        ledger.tables.frontendStat,
        record.id,
      );
      yield {
        frontend,
        family: port.family,
        service: port.service,
        port: port.key,
        internal: members(record.internal),
        external: members(record.external),
        internalEmpty: value.internalEmpty,
        externalEmpty: value.externalEmpty,
        affinitySeconds: value.affinitySeconds,
        connections,
        refused,
        dropped,
        affinityHits,
      };
    }
  }
}

export function* backendViews(ledger: Ledger): Generator<BackendView> {
  for (const port of allPorts(ledger)) {
    for (const [key, backend] of port.backends) yield backendView(ledger, port, key, backend);
  }
}

function backendView(
  ledger: Ledger,
  port: PortRecord,
  key: string,
  backend: BackendRecord,
): BackendView {
  const [connections = 0, closed = 0] = counters(ledger.tables.backendStat, backend.id);
  return {
    backend: key,
    family: port.family,
    service: port.service,
    port: port.key,
    id: backend.id,
    generation: backend.generation,
    state: STATE_NAMES[backend.state] ?? STATE_NAMES[BACKEND_STATE.FREE],
    isLocal: backend.isLocal,
    connections,
    open: Math.max(0, connections - closed),
  };
}
