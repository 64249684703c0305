// SPDX-License-Identifier: Apache-2.0
// The full check of what direct return needs to know: fl_backend_node and fl_local_be. Written anew in place, because only
// requests of direct return read them.
import type { Entry } from '../../entry.ts';
import { encodeNodeAddress } from '../layout/direct-layout.ts';
import { encodeU32 } from '../layout/layout.ts';
import { nodeAddressOf } from '../rows/service-port/backend-nodes.ts';
import type { Ledger, PortRecord } from './ledger.ts';
import { element, storeWords } from './tables.ts';

const isSame = (a: Uint8Array, b: Uint8Array): boolean => a.join() === b.join();

export const auditDirect = (ledger: Ledger, port: PortRecord): readonly Entry[] =>
  port.backends.flatMap((id) => [...auditNode(ledger, port, id), ...auditLocal(ledger, port, id)]);

function auditNode(ledger: Ledger, port: PortRecord, id: number): readonly Entry[] {
  const table = ledger.tables.direct?.backendNode;
  const address = nodeAddressOf(ledger, port.family, id);
  if (table === undefined || address === undefined) return [];
  const wanted = encodeNodeAddress(address);
  if (isSame(element(table, id), wanted)) return [];
  storeWords(table, id, wanted);
  return [entryOf(ledger, port, id, 'node', 'differs')];
}

function auditLocal(ledger: Ledger, port: PortRecord, id: number): readonly Entry[] {
  const table = ledger.tables.direct?.localBackend;
  const key = ledger.localBackends.get(id);
  if (table === undefined || key === undefined) return [];
  const held = table.get(key);
  if (held !== undefined && isSame(held, encodeU32(id))) return [];
  table.put([key], [encodeU32(id)]);
  return [entryOf(ledger, port, id, 'key', held === undefined ? 'is missing' : 'differs')];
}

function entryOf(
  { caches }: Ledger,
  { family, key }: PortRecord,
  id: number,
  part: 'node' | 'key',
  what: string,
): Entry {
  const backend = caches.backend[family].text(id);
  const text = `${part} for direct return of backend ${backend} (id ${id}) of ${key} ${what}`;
  return { id: { kind: 'backend', family, backend }, text };
}
