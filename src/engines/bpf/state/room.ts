// SPDX-License-Identifier: Apache-2.0
// A sync that finds no room ends the bases of tables, which are dispensable, before any Service is refused or gets a lesser
// set.
import type { Plan, ServiceKey } from '../../../plan/types.ts';
import type { SyncReport } from '../../dataplane.ts';
import type { TableSync } from './table-sync.ts';

/** @param isClosed what is retired is not released any more */
export async function applyWithRoom(
  core: Pick<TableSync, 'apply' | 'endBases' | 'releaseRetired'>,
  plan: Plan,
  keys: readonly ServiceKey[],
  isClosed = () => false,
): Promise<SyncReport> {
  const report = core.apply(plan, keys);
  const isFull = report.failed.some(({ code }) => code === 'MAP_FULL');
  if (!isFull || core.endBases() === 0) return report;
  await core.releaseRetired();
  if (isClosed()) return report;
  const again = core.apply(plan, keys);
  return {
    applied: report.applied + again.applied,
    failed: again.failed,
    elapsedMs: report.elapsedMs + again.elapsedMs,
  };
}
