// SPDX-License-Identifier: Apache-2.0
// One run of applyPlan, as the satellites see it, and how a port is taken out of it.
import type { Family } from '../../../../model/types.ts';
import type { NodeFacts, ServicePortPlan } from '../../../../plan/types.ts';
import type { FailedEntry } from '../../../dataplane.ts';
import type { Entry } from '../../../entry.ts';
import type { FrontendRecord, Ledger, PortRecord } from '../../state/ledger.ts';
import { type PreparedPort, undoPort } from '../service-port/update.ts';

export interface Sync {
  readonly ledger: Ledger;
  /** A port whose satellite could not be written is removed from them. */
  readonly prepared: PreparedPort[];
  /** Records to finalize, with the port in the plan, whose serving backends keep their flows. */
  readonly touched: Map<PortRecord, ServicePortPlan | undefined>;
  readonly deletes: Record<Family, { record: PortRecord; frontend: FrontendRecord }[]>;
  /** Records that are empty now. */
  readonly emptied: PortRecord[];
  readonly failed: FailedEntry[];
  applied: number;
}

export interface Satellite {
  /** Before any frontend is put. */
  put(sync: Sync): void;
  /** After every removed frontend has been deleted. */
  remove(sync: Sync): void;
  /** Into the ledger, what an earlier agent has written. */
  adopt?(ledger: Ledger): void;
  /** Once every Service is programmed: what an earlier agent has left, or was lost. */
  repair?(ledger: Ledger): void;
  /** What depends on the nodes. Cheap if nothing changed. */
  follow?(ledger: Ledger, node: NodeFacts): void;
  /** Written anew in place, and reported. */
  audit?(ledger: Ledger, port: PortRecord): readonly Entry[];
}

type Failure = Pick<FailedEntry, 'code' | 'map' | 'reason' | 'isServed'>;

/** Leaves the port as it was before the sync, and reports it. */
export function refusePort(sync: Sync, prepared: PreparedPort, failure: Failure): void {
  const { record } = prepared;
  const deletes = sync.deletes[record.family];
  undoPort(prepared);
  sync.prepared.splice(sync.prepared.indexOf(prepared), 1);
  sync.touched.delete(record);
  sync.deletes[record.family] = deletes.filter((dropped) => dropped.record !== record);
  sync.failed.push(portFailure(record, failure));
}

/** A failure that concerns a whole service port. */
export const portFailure = (
  { key, service }: Pick<PortRecord, 'key' | 'service'>,
  failure: Failure,
): FailedEntry => ({
  id: { kind: 'service-port', port: key },
  text: `service port ${key}`,
  ...failure,
  service,
});
