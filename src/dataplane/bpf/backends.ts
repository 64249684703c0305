// SPDX-License-Identifier: Apache-2.0
// The backends of one service port in the kernel's arrays: written before anything refers to them,
// afterwards changed in single bytes only, marked before they are retired. Floor 3a.
import type { Backend } from '../../plan/types.ts';
import type { Orphan } from './adopt.ts';
import {
  BACKEND_STATE,
  backendGenerationOffset,
  backendStateOffset,
  encodeBackend,
} from './layout.ts';
import { allPorts, type BackendRecord, type Ledger, type PortRecord } from './ledger.ts';
import { element } from './tables.ts';
import { TableFull, type Taking } from './taking.ts';

/** Reuses the record's backend or writes a new one; a backend that returns is made ACTIVE again. */
export function ensureBackend(taking: Taking, key: string, backend: Backend): void {
  const { ledger, record, undos } = taking;
  const known = record.backends.get(key);
  if (known !== undefined) {
    const before = { state: known.state, isLocal: known.isLocal };
    setBackend(ledger, record, known, { state: BACKEND_STATE.ACTIVE, isLocal: backend.isLocal });
    undos.push(() => setBackend(ledger, record, known, before));
    return;
  }
  const id = ledger.backendIds.take();
  if (id === undefined) {
    const table = ledger.tables.backend[record.family];
    throw new TableFull(table.name, ledger.backendIds.capacity, 'backends');
  }
  const created = writeBackend(ledger, record, id, backend);
  record.backends.set(key, created);
  undos.push(() => {
    record.backends.delete(key);
    setBackend(ledger, record, created, { state: BACKEND_STATE.FREE, isLocal: false });
    ledger.backendIds.give(id);
  });
}

function writeBackend(
  ledger: Ledger,
  record: PortRecord,
  id: number,
  backend: Backend,
): BackendRecord {
  const { family } = record;
  const at = element(ledger.tables.backend[family], id);
  const view = new DataView(at.buffer, at.byteOffset, at.byteLength);
  const generation = (view.getUint16(backendGenerationOffset(family), true) + 1) & 0xffff;
  const state = BACKEND_STATE.ACTIVE;
  element(ledger.tables.backendStat, id).fill(0);
  const value = { ...backend, state, serviceId: record.serviceId, generation };
  at.set(encodeBackend(value, family));
  return { id, generation, state, isLocal: backend.isLocal };
}

/** Changes the two single-byte fields of a published backend. */
export function setBackend(
  ledger: Ledger,
  record: PortRecord,
  backend: BackendRecord,
  to: { readonly state: number; readonly isLocal: boolean },
): void {
  if (backend.state === to.state && backend.isLocal === to.isLocal) return;
  const at = element(ledger.tables.backend[record.family], backend.id);
  const offset = backendStateOffset(record.family);
  at[offset + 1] = Number(to.isLocal);
  at[offset] = to.state;
  backend.state = to.state;
  backend.isLocal = to.isLocal;
}

/** A backend no set has: TERMINATING keeps its id for the sockets on it, GONE gives it up. */
export function retireBackend(
  ledger: Ledger,
  record: PortRecord,
  key: string,
  isServing: boolean,
): void {
  const backend = record.backends.get(key);
  if (backend === undefined) return;
  const state = isServing ? BACKEND_STATE.TERMINATING : BACKEND_STATE.GONE;
  setBackend(ledger, record, backend, { state, isLocal: backend.isLocal });
  if (isServing) return;
  record.backends.delete(key);
  ledger.retired.backends.push({ family: record.family, id: backend.id });
}

/** Orphans that nobody has taken since, before their service id comes to mean another Service. */
export function freeOrphans(ledger: Ledger, orphans: readonly Orphan[]): void {
  if (orphans.length === 0) return;
  const left = new Map(orphans.map((orphan) => [`${orphan.family} ${orphan.id}`, orphan]));
  for (const { family, backends } of allPorts(ledger)) {
    for (const { id } of backends.values()) left.delete(`${family} ${id}`);
  }
  for (const { family, id } of left.values()) {
    const at = element(ledger.tables.backend[family], id);
    const isMarked = at[backendStateOffset(family)] === BACKEND_STATE.GONE;
    if (!isMarked) at[backendStateOffset(family)] = BACKEND_STATE.FREE;
  }
}
