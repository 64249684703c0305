// SPDX-License-Identifier: Apache-2.0
// The full check of fl_backend_node and fl_local_be. Written anew in place, because only requests of direct return read them.
import type { Entry } from '../../entry.ts';
import { encodeU32 } from '../layout/layout.ts';
import type { Ledger, PortRecord } from '../state/ledger.ts';
import { element, storeWords } from '../state/tables.ts';
import { nodeAddressOf } from './backend-nodes.ts';
import { encodeNodeAddress } from './direct-layout.ts';

export const auditDirect = (ledger: Ledger, port: PortRecord): readonly Entry[] =>
  port.backends.flatMap((id) => [...auditNode(ledger, port, id), ...auditLocal(ledger, port, id)]);

function auditNode(ledger: Ledger, port: PortRecord, id: number): readonly Entry[] {
  const table = ledger.tables.direct?.backendNode;
  const address = nodeAddressOf(ledger, port.family, id);
  if (table === undefined || address === undefined) return [];
  const wanted = encodeNodeAddress(address);
  if (Buffer.compare(element(table, id), wanted) === 0) return [];
  storeWords(table, id, wanted);
  return [entryOf(ledger, port, id, 'node', 'differs')];
}

function auditLocal(ledger: Ledger, port: PortRecord, id: number): readonly Entry[] {
  const table = ledger.tables.direct?.localBackend;
  const key = ledger.localBackends.get(id);
  if (table === undefined || key === undefined) return [];
  const held = table.get(key);
  if (held !== undefined && Buffer.compare(held, encodeU32(id)) === 0) return [];
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
