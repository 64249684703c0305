// SPDX-License-Identifier: Apache-2.0
// fl_local_be: ids of the backends of this node that requests from outside may be for, by what other nodes name them by. They
// are there whether or not a rule of this node has direct return: the node that sends decides, and may know the Service's
// new annotation first.
import type { ServicePortPlan } from '../../../plan/types.ts';
import { encodeU32 } from '../layout/layout.ts';
import { portFailure, type Satellite, type Sync } from '../rows/satellites/sync.ts';
import type { PreparedPort } from '../rows/service-port/update.ts';
import { writeFailure } from '../state/failure.ts';
import type { Ledger } from '../state/ledger.ts';
import { auditDirect } from './audit.ts';
import { followNodes } from './backend-nodes.ts';
import {
  adoptLocalBackends,
  localBackendKey,
  repairLocalBackends,
  withoutBackends,
} from './held-backends.ts';

export const LOCAL_BACKENDS: Satellite = {
  put(sync) {
    if (sync.ledger.tables.direct === undefined) return;
    for (const prepared of sync.prepared) {
      if (isExternal(sync.touched.get(prepared.record))) putLocal(sync, prepared);
    }
  },
  remove({ ledger }) {
    const gone = ledger.retired.backends.filter(({ id }) => ledger.localBackends.has(id));
    forget(
      ledger,
      gone.map(({ id }) => id),
    );
  },
  adopt: adoptLocalBackends,
  repair: repairLocalBackends,
  follow: (ledger, { peers }) => followNodes(ledger, peers),
  audit: auditDirect,
};

const isExternal = (port: ServicePortPlan | undefined): boolean =>
  port?.frontends.some(({ kind }) => kind !== 'ClusterIP') ?? false;

function putLocal(sync: Sync, { record, undos }: PreparedPort): void {
  const { ledger } = sync;
  const table = ledger.tables.direct?.localBackend;
  if (table === undefined) return;
  const cache = ledger.caches.backend[record.family];
  forget(
    ledger,
    record.backends.filter((id) => !cache.isLocal(id) && ledger.localBackends.has(id)),
  );
  const fresh = record.backends.filter((id) => cache.isLocal(id) && !ledger.localBackends.has(id));
  if (fresh.length === 0) return;
  undos.push(() => forget(ledger, fresh));
  const keys = fresh.map((id) => localBackendKey(ledger, record, id));
  const refused = table.put(keys, fresh.map(encodeU32));
  for (const [at, id] of fresh.entries()) {
    const key = keys[at];
    if (key !== undefined) ledger.localBackends.set(id, key);
  }
  for (const { index, code } of refused) {
    ledger.localBackends.delete(fresh[index] ?? 0);
    const lost = 'requests to it that come by direct return are masqueraded';
    sync.failed.push(portFailure(record, writeFailure(table.name, code, lost)));
  }
}

function forget(ledger: Ledger, ids: readonly number[]): void {
  if (!ids.some((id) => ledger.localBackends.has(id))) return;
  const { gone, stay } = withoutBackends(ledger.localBackends, ids);
  const table = ledger.tables.direct?.localBackend;
  table?.delete(gone);
  const staying = [...stay.keys()];
  const refused = table?.put([...stay.values()], staying.map(encodeU32)) ?? [];
  // The next sync of its Service writes it again.
  for (const { index } of refused) ledger.localBackends.delete(staying[index] ?? 0);
  for (const id of ids) ledger.localBackends.delete(id);
}
