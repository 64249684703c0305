// SPDX-License-Identifier: Apache-2.0
// What fl_local_be has, and should have: adopted from an earlier agent, and repaired.

import { decodeBackend, encodeU32 } from '../layout/layout.ts';
import { allPorts, type Ledger, type PortRecord } from '../state/ledger.ts';
import { element } from '../state/tables.ts';
import { encodeLocalBackendKey } from './direct-layout.ts';

/** What other nodes name the backend by. */
export function localBackendKey(
  ledger: Ledger,
  { family, serviceId }: PortRecord,
  id: number,
): Uint8Array {
  const { address, port } = decodeBackend(element(ledger.tables.backend[family], id), family);
  return encodeLocalBackendKey({ address, port, serviceId });
}

/** What is left once these ids are gone: keys that no other id has go, the others stay for the id that still has them. */
export function withoutBackends(
  held: ReadonlyMap<number, Uint8Array>,
  ids: readonly number[],
): { readonly gone: readonly Uint8Array[]; readonly stay: ReadonlyMap<number, Uint8Array> } {
  const unwanted = new Set(ids);
  const keys = new Map<string, Uint8Array>();
  for (const id of unwanted) {
    const key = held.get(id);
    if (key !== undefined) keys.set(key.join(), key);
  }
  const stay = new Map<number, Uint8Array>();
  for (const [id, key] of keys.size === 0 ? [] : held) {
    if (!unwanted.has(id) && keys.has(key.join())) stay.set(id, key);
  }
  for (const key of stay.values()) keys.delete(key.join());
  return { gone: [...keys.values()], stay };
}

/** Of an earlier agent: what belongs to a backend as it is. */
export function adoptLocalBackends(ledger: Ledger): void {
  const held = new Map(
    ledger.tables.direct?.localBackend.readAll().map(({ key, value }) => [key.join(), value]),
  );
  if (held.size === 0) return;
  for (const record of allPorts(ledger)) {
    const cache = ledger.caches.backend[record.family];
    for (const id of record.backends) {
      if (!cache.isLocal(id)) continue;
      const key = localBackendKey(ledger, record, id);
      if (held.get(key.join())?.join() === encodeU32(id).join()) ledger.localBackends.set(id, key);
    }
  }
}

/** Makes the table have what the ledger has, once every Service is programmed: of an earlier agent, or lost. */
export function repairLocalBackends({ tables, localBackends }: Ledger): void {
  const table = tables.direct?.localBackend;
  if (table === undefined) return;
  const wanted = new Map([...localBackends].map(([id, key]) => [key.join(), { id, key }]));
  const stray: Uint8Array[] = [];
  for (const { key, value } of table.readAll()) {
    const known = wanted.get(key.join());
    if (known === undefined) stray.push(key);
    else if (encodeU32(known.id).join() === value.join()) wanted.delete(key.join());
  }
  const missing = [...wanted.values()];
  table.put(
    missing.map(({ key }) => key),
    missing.map(({ id }) => encodeU32(id)),
  );
  table.delete(stray);
}
