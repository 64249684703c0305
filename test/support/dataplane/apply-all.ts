// SPDX-License-Identifier: Apache-2.0
import type { TableSync } from '../../../src/engines/bpf/state/table-sync.ts';
import type { SyncReport } from '../../../src/engines/dataplane.ts';
import type { Plan } from '../../../src/plan/types.ts';

/** A full sync as the dataplane makes it, in one batch. */
export function applyAll(sync: TableSync, plan: Plan): SyncReport {
  const report = sync.apply(plan, sync.allServices(plan));
  sync.dropStray();
  return report;
}
