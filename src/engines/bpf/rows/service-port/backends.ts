// SPDX-License-Identifier: Apache-2.0
// The backends of one service port in the kernel's arrays: written before anything refers to them, then
// changed only in single bytes, and marked before they are retired.
import { exactList } from '../../../../lib/compact.ts';
import type { Backend, BackendList } from '../../../../plan/types.ts';
import { writeBackendNode, writeRealServer } from '../../direct-return/backend-nodes.ts';
import { type BackendKey, backendKey, writeBackendKey } from '../../layout/backend-key.ts';
import {
  BACKEND_STATE,
  backendGenerationOffset,
  backendServiceOffset,
  backendStateOffset,
} from '../../layout/layout.ts';
import { nameOf } from '../../layout/names.ts';
import { type Allocation, TableFull } from '../../state/allocation/allocation.ts';
import { allPorts, type Ledger, type Orphan, type PortRecord } from '../../state/ledger.ts';
import { clear } from '../../state/tables.ts';

const ascending = (a: number, b: number): number => a - b;

/** The port's backends by address and port, except those that an audit found changed. */
function knownIds({ ledger, record }: Allocation): ReadonlyMap<BackendKey, number> {
  const cache = ledger.caches.backend[record.family];
  const known = new Map<BackendKey, number>();
  for (const id of record.backends) {
    if (!ledger.damagedBackends.has(id)) known.set(cache.key(id), id);
  }
  return known;
}

/** The ids of backends. */
export interface EnsuredBackends {
  readonly ascending: readonly number[];
  /** In the order in which they were asked for. */
  readonly asked: readonly number[];
}

/**
 * Reuses the port's backends or writes new ones; one that comes back is made ACTIVE again.
 * @param usesIpip requests to real servers go in IPIP
 */
export function ensureBackends(
  allocation: Allocation,
  wanted: BackendList,
  usesIpip: boolean,
): EnsuredBackends {
  const { ledger, record, undos } = allocation;
  const known = knownIds(allocation);
  const created: number[] = [];
  const writeNode = usesIpip ? writeRealServer : writeBackendNode;
  const before = record.backends;
  undos.push(() => {
    record.backends = before;
    for (const id of created) giveBack(ledger, record, id);
  });
  const asked = wanted.map((backend) => {
    const key = backendKey(backend, record.family);
    const id = known.get(key);
    if (id !== undefined) {
      writeNode(ledger, record, { id, isFresh: false }, backend);
      return activate(allocation, id, backend.isLocal);
    }
    const fresh = takeBackendId(allocation);
    created.push(fresh);
    writeNode(ledger, record, { id: fresh, isFresh: true }, backend);
    writeBackend(allocation, fresh, key, backend);
    return fresh;
  });
  const ids = isAscending(asked) ? asked : asked.toSorted(ascending);
  // A new port has exactly the backends it needs: one list serves both.
  if (before.length === 0) record.backends = ids;
  else if (created.length > 0) record.backends = exactList([...before, ...created].sort(ascending));
  return { ascending: ids, asked };
}

const isAscending = (ids: readonly number[]): boolean =>
  ids.every((id, index) => index === 0 || (ids[index - 1] ?? 0) <= id);

function takeBackendId({ ledger, record }: Allocation): number {
  const id = ledger.backendIds.take();
  if (id !== undefined) return id;
  const table = ledger.tables.backend[record.family].name;
  throw new TableFull(table, ledger.backendIds.capacity, 'backends');
}

function giveBack(ledger: Ledger, record: PortRecord, id: number): void {
  setBackend(ledger, record, id, { state: BACKEND_STATE.FREE, isLocal: false });
  ledger.backendIds.give(id);
}

function activate({ ledger, record, undos }: Allocation, id: number, isLocal: boolean): number {
  const cache = ledger.caches.backend[record.family];
  const before = { state: cache.state(id), isLocal: cache.isLocal(id) };
  if (before.state === BACKEND_STATE.ACTIVE && before.isLocal === isLocal) return id;
  setBackend(ledger, record, id, { state: BACKEND_STATE.ACTIVE, isLocal });
  undos.push(() => setBackend(ledger, record, id, before));
  return id;
}

function writeBackend(
  { ledger, record }: Allocation,
  id: number,
  key: BackendKey,
  { isLocal }: Backend,
): void {
  const { family, serviceId } = record;
  clear(ledger.tables.backendStat, id);
  clear(ledger.tables.backendFlows, id);
  const table = ledger.tables.backend[family];
  const view = table.view(id);
  const at = table.offset(id);
  const generationAt = at + backendGenerationOffset(family);
  writeBackendKey(view, at, key);
  view.setUint32(at + backendServiceOffset(family), serviceId, true);
  view.setUint16(generationAt, view.getUint16(generationAt, true) + 1, true);
  view.setUint8(at + backendStateOffset(family) + 1, Number(isLocal));
  view.setUint8(at + backendStateOffset(family), BACKEND_STATE.ACTIVE);
  ledger.caches.backend[family].copy(id, view, at);
}

/** Changes the two single-byte fields of a published backend. */
function setBackend(
  ledger: Ledger,
  { family }: PortRecord,
  id: number,
  { state, isLocal }: { readonly state: number; readonly isLocal: boolean },
): void {
  const table = ledger.tables.backend[family];
  const view = table.view(id);
  const at = table.offset(id) + backendStateOffset(family);
  view.setUint8(at + 1, Number(isLocal));
  view.setUint8(at, state);
  ledger.caches.backend[family].setState(id, state, isLocal);
}

/**
 * Backends that are in no set: TERMINATING ones keep their id for the sockets on them, GONE ones free it.
 * @param isServing called only for removed backends
 */
export function retireBackends(
  ledger: Ledger,
  record: PortRecord,
  inUse: ReadonlySet<number>,
  isServing: (key: BackendKey) => boolean,
): void {
  const { family } = record;
  const cache = ledger.caches.backend[family];
  record.backends = exactList(
    record.backends.filter((id) => {
      if (inUse.has(id)) return true;
      const stays = !ledger.damagedBackends.delete(id) && isServing(cache.key(id));
      const state = stays ? BACKEND_STATE.TERMINATING : BACKEND_STATE.GONE;
      if (cache.state(id) !== state)
        setBackend(ledger, record, id, { state, isLocal: cache.isLocal(id) });
      if (!stays) {
        ledger.retired.backends.push({ family, id });
        ledger.ended.add(nameOf(record.key).protocol);
      }
      return stays;
    }),
  );
}

/** Frees orphans that no port has reused, before their service id is given to another Service. */
export function freeOrphans(ledger: Ledger, orphans: readonly Orphan[]): void {
  if (orphans.length === 0) return;
  const left = new Map(orphans.map((orphan) => [`${orphan.family} ${orphan.id}`, orphan]));
  for (const { family, backends } of allPorts(ledger)) {
    for (const id of backends) left.delete(`${family} ${id}`);
  }
  for (const { family, id } of left.values()) {
    const table = ledger.tables.backend[family];
    const view = table.view(id);
    const stateAt = table.offset(id) + backendStateOffset(family);
    if (view.getUint8(stateAt) !== BACKEND_STATE.GONE) view.setUint8(stateAt, BACKEND_STATE.FREE);
  }
}
