// SPDX-License-Identifier: Apache-2.0
// Synchronizes Tables with plans, synchronously: adopts their contents, applies plans, audits, and makes
// retired ids reusable. No system call of its own; ../dataplane.ts makes the asynchronous dataplane of it.
import type { Plan, ServiceKey } from '../../../plan/types.ts';
import type { FailedEntry, SyncReport } from '../../dataplane.ts';
import type { Entry } from '../../entry.ts';
import { BACKEND_STATE, backendStateOffset } from '../layout/layout.ts';
import { makeTables } from '../rows/lookup-tables.ts';
import { createNodeAddresses, type NodeAddresses } from '../rows/satellites/node.ts';
import { deleteRetired, retireRange } from '../rows/satellites/range-registry.ts';
import { SATELLITES } from '../rows/satellites/satellites.ts';
import { applyDetector } from '../rows/satellites/source-ranges.ts';
import { freeOrphans } from '../rows/service-port/backends.ts';
import { endBases, type IsOver } from '../rows/service-port/base.ts';
import { adopt, rangeIdsWithin } from './adopt.ts';
import { applyPlan, isLosing } from './apply.ts';
import { findDrift } from './audit.ts';
import { allPorts, drainRetired, isRetiredEmpty, type Ledger, type Retired } from './ledger.ts';
import type { Tables } from './tables.ts';

export interface TableSync {
  readonly ledger: Ledger;
  /**
   * Makes the lookup tables that the next apply of these Services needs, in small steps between which nothing may be
   * applied. Without it apply makes them itself, however long that takes.
   */
  makeTables(plan: Plan, changed: Iterable<ServiceKey>): Generator<void>;
  /** Makes the tables agree with the plan for these Services. */
  apply(plan: Plan, changed: Iterable<ServiceKey>): SyncReport;
  /**
   * Compares the tables with what was written, in small steps between which nothing may be applied; the next
   * apply rewrites what differs.
   */
  findDrift(): Generator<readonly Entry[]>;
  /** Ends the bases of tables that are needed no more; by default all. Returns how many. */
  endBases(isOver?: IsOver): number;
  /** True if the Service has a frontend programmed that its plan no longer has. */
  isLosing(plan: Plan, service: ServiceKey): boolean;
  /** Every Service of the plan, and every one of which something is programmed. */
  allServices(plan: Plan): ReadonlySet<ServiceKey>;
  /** Deletes frontends and ranges, and frees backends, found at start that belong to no Service of a complete plan. */
  dropStray(): void;
  /** Updates the ranges of pods from the plan. Cheap if nothing changed. */
  applyDetector(plan: Plan): readonly FailedEntry[];
  /** Updates the addresses of the nodes of backends. Cheap if nothing changed. */
  followNodes(node: Plan['node']): void;
  /** NodePort addresses, from the plan and the node's current addresses. */
  readonly nodeAddresses: NodeAddresses;
  /**
   * Makes retired ids reusable, after every program that may still use them has ended.
   * Calls that overlap share one wait. Resolves with false if there was nothing to release.
   */
  releaseRetired(): Promise<boolean>;
  /** Stops releasing: retired ids stay retired. */
  close(): void;
}

/** @param waitGracePeriod resolves after every program that runs now has ended; never rejects */
export function createTableSync(tables: Tables, waitGracePeriod: () => Promise<void>): TableSync {
  const adopted = adopt(tables);
  const { ledger } = adopted;
  let { stray, orphans, strayRanges } = adopted;
  let isClosed = false;
  let releasing: Promise<boolean> | undefined;

  const releaseOnce = async (): Promise<boolean> => {
    if (isRetiredEmpty(ledger.retired)) return false;
    // Ids retired during a wait need another wait, also those of the last change.
    while (!isClosed && !isRetiredEmpty(ledger.retired)) {
      const batch = drainRetired(ledger);
      await waitGracePeriod();
      if (!isClosed) release(ledger, batch);
    }
    return true;
  };

  const dropStray = (): void => {
    dropStrayFrontends();
    // Only now do no frontends lead to them.
    freeOrphans(ledger, orphans);
    orphans = [];
    for (const satellite of SATELLITES) satellite.repair?.(ledger);
    for (const range of strayRanges) retireRange(ledger, range);
    ledger.retired.serviceIds.push(...rangeIdsWithin(strayRanges, tables.serviceName.capacity));
    strayRanges = [];
  };

  /** By now a stray frontend may belong to a Service of the plan, which then replaced its value. */
  const dropStrayFrontends = (): void => {
    if (stray.length === 0) return;
    const owned = new Set<string>();
    for (const port of allPorts(ledger)) {
      for (const { id } of port.frontends) {
        owned.add(ledger.caches.frontend.key(id, port.family).join());
      }
    }
    for (const { family, key } of stray) {
      if (!owned.has(key.join())) tables.frontend[family].delete([key]);
    }
    stray = [];
  };

  return {
    ledger,
    makeTables: (plan, changed) => makeTables(ledger, plan, changed),
    apply(plan, changed) {
      const report = applyPlan(ledger, plan, changed);
      ledger.lookupTables.clear();
      return report;
    },
    endBases: (isOver = () => true) => endBases(ledger, isOver),
    isLosing: (plan, service) => isLosing(ledger, plan, service),
    allServices: (plan) => new Set([...ledger.services.keys(), ...plan.services.keys()]),
    nodeAddresses: createNodeAddresses(tables),
    followNodes: (node) => {
      for (const satellite of SATELLITES) satellite.follow?.(ledger, node);
    },
    applyDetector: (plan) => applyDetector(ledger, plan),
    findDrift: () => findDrift(ledger),
    releaseRetired() {
      releasing ??= releaseOnce().finally(() => {
        releasing = undefined;
      });
      return releasing;
    },
    dropStray,
    close() {
      isClosed = true;
    },
  };
}

/** Makes retired ids and blocks usable again. Only after every program that could hold them ended. */
function release(ledger: Ledger, batch: Retired): void {
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
