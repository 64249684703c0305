// SPDX-License-Identifier: Apache-2.0
// A ledger from what the kernel already holds: ids and sets survive a restart of the agent, so that
// nothing moves that need not. What cannot be attributed to a service port is reported as stray.
// Floor 3a: reads Tables, writes nothing.

import { hostPort } from '../../lib/address-bytes.ts';
import type { Family } from '../../model/types.ts';
import {
  BACKEND_STATE,
  backendServiceOffset,
  backendStateOffset,
  decodeBackend,
  decodeFrontend,
  decodeFrontendKey,
  decodeServiceName,
  decodeU32,
  type SetRef,
  SLOTS_PER_LINE,
} from './layout.ts';
import {
  addPort,
  createLedger,
  createPortRecord,
  type FrontendRecord,
  type Ledger,
  linesOf,
  ownerKey,
  type PortRecord,
  type SetRecord,
} from './ledger.ts';
import { portKeyOf } from './names.ts';
import { frontendText } from './render.ts';
import { type ArrayTable, element, type Tables } from './tables.ts';

export interface Adopted {
  readonly ledger: Ledger;
  /** Frontends of no known service port: to be deleted after the first sync. */
  readonly stray: readonly { readonly family: Family; readonly key: Uint8Array }[];
  /** Backends that look alive and are nobody's: whoever wrote them died before naming their service id. */
  readonly orphans: readonly Orphan[];
}

export interface Orphan {
  readonly family: Family;
  readonly id: number;
}

const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];

/** Complexity: linear in the tables' contents plus one pass over the backend arrays. */
export function adopt(tables: Tables): Adopted {
  const byServiceId = readServices(tables);
  const { backendIds, orphans } = readBackends(tables, byServiceId);
  const read = FAMILIES.map((family) => readFrontends(tables, family, byServiceId));
  const frontends = read.flatMap((r) => r.owned);
  const ports = [...byServiceId.values()];
  const ledger = createLedger(tables, {
    backendIds,
    frontendIds: new Set(frontends.map((owned) => owned.frontend.id)),
    serviceIds: byServiceId.keys(),
    lines: ports.flatMap((port) =>
      [...port.sets].map((set) => ({ first: set.line, lines: linesOf(set.members) })),
    ),
  });
  for (const port of ports) addPort(ledger, port);
  for (const { port, text, frontend } of frontends) {
    ledger.owners.set(ownerKey(port.family, text), port);
    if (frontend.key.address === undefined) ledger.nodePorts++;
  }
  return { ledger, stray: read.flatMap((r) => r.stray), orphans };
}

function readServices(tables: Tables): Map<number, PortRecord> {
  const ports = new Map<number, PortRecord>();
  for (const { key, value } of tables.serviceName.readAll()) {
    const service = decodeServiceName(value);
    const serviceId = decodeU32(key);
    ports.set(serviceId, createPortRecord(portKeyOf(service), service.family, serviceId));
  }
  return ports;
}

/** @returns ids in use; elements of unknown services are taken by nobody and their ids free to reuse */
function readBackends(
  tables: Tables,
  ports: ReadonlyMap<number, PortRecord>,
): { readonly backendIds: ReadonlySet<number>; readonly orphans: readonly Orphan[] } {
  const taken = new Set<number>();
  const orphans: Orphan[] = [];
  for (const family of FAMILIES) {
    const table = tables.backend[family];
    const { bytes, elementSize } = table;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let id = 1; id < table.length; id++) {
      const at = id * elementSize;
      const state = bytes[at + backendStateOffset(family)];
      if (state !== BACKEND_STATE.ACTIVE && state !== BACKEND_STATE.TERMINATING) continue;
      const port = ports.get(view.getUint32(at + backendServiceOffset(family), true));
      if (port?.family !== family || taken.has(id)) {
        orphans.push({ family, id });
        continue;
      }
      const backend = decodeBackend(element(table, id), family);
      taken.add(id);
      port.backends.set(hostPort(backend.address, backend.port), {
        id,
        generation: backend.generation,
        state,
        isLocal: backend.isLocal,
      });
    }
  }
  return { backendIds: taken, orphans };
}

interface OwnedFrontend {
  readonly port: PortRecord;
  readonly text: string;
  readonly frontend: FrontendRecord;
}

function readFrontends(
  tables: Tables,
  family: Family,
  ports: ReadonlyMap<number, PortRecord>,
): { owned: OwnedFrontend[]; stray: { family: Family; key: Uint8Array }[] } {
  const owned: OwnedFrontend[] = [];
  const stray: { family: Family; key: Uint8Array }[] = [];
  const seen = new Set<number>();
  for (const { key, value } of tables.frontend[family].readAll()) {
    const decoded = decodeFrontend(value);
    const port = ports.get(decoded.serviceId);
    const id = decoded.frontendId;
    if (port?.family !== family || id === 0 || id >= tables.frontendStat.length || seen.has(id)) {
      stray.push({ family, key });
      continue;
    }
    seen.add(id);
    const frontendKey = decodeFrontendKey(key, family);
    const text = frontendText(frontendKey);
    const frontend: FrontendRecord = {
      id,
      key: frontendKey,
      keyBytes: key,
      value,
      internal: readSet(tables.setLine, port, decoded.internal),
      external: readSet(tables.setLine, port, decoded.external),
    };
    port.frontends.set(text, frontend);
    owned.push({ port, text, frontend });
  }
  return { owned, stray };
}

/** Sets with equal refs are one; a ref beyond the table is no set (the next sync replaces it). */
function readSet(table: ArrayTable, port: PortRecord, ref: SetRef): SetRecord | undefined {
  if (ref.slots === 0) return undefined;
  for (const set of port.sets) {
    if (set.line === ref.line && set.members.length === ref.slots) return set;
  }
  if (ref.line + Math.ceil(ref.slots / SLOTS_PER_LINE) > table.length) return undefined;
  const at = table.bytes.byteOffset + ref.line * table.elementSize;
  const members = Array.from(new Uint32Array(table.bytes.buffer, at, ref.slots));
  const set: SetRecord = { line: ref.line, generation: ref.generation, members };
  port.sets.add(set);
  return set;
}
