// SPDX-License-Identifier: Apache-2.0
// What happens to retired ids, blocks and ranges once no program can still use them.
import { BACKEND_STATE, backendStateOffset } from '../layout/layout.ts';
import { deleteRetired } from '../rows/satellites/range-registry.ts';
import type { Ledger, Retired } from './ledger.ts';

/** Makes retired ids and blocks usable again. Only after every program that could hold them ended. */
export function release(ledger: Ledger, batch: Retired): void {
  for (const { family, id } of batch.backends) {
    const table = ledger.tables.backend[family];
    const stateAt = table.offset(id) + backendStateOffset(family);
    table.view(id).setUint8(stateAt, BACKEND_STATE.FREE);
    ledger.backendIds.give(id);
  }
  for (const run of batch.blocks) ledger.blocks.give(run.first, run.blocks);
  for (const id of batch.frontendIds) ledger.frontendIds.give(id);
  const left = deleteRetired(ledger, batch.ranges);
  for (const id of batch.serviceIds) if (!left.has(id)) ledger.serviceIds.give(id);
}
