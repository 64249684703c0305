// SPDX-License-Identifier: Apache-2.0
// Plans into Tables, at once and whole: adopts what they hold, applies plans, audits, and makes what was
// retired usable again. No system call of its own; ../dataplane.ts makes the asynchronous dataplane of it.
import type { Plan, ServiceKey } from '../../../plan/types.ts';
import type { FailedEntry, NodeAddress, SyncReport } from '../../dataplane.ts';
import type { Entry } from '../../entry.ts';
import type { Tables } from '../maps/tables.ts';
import { adopt } from './adopt.ts';
import { applyPlan } from './apply.ts';
import { findDrift } from './audit.ts';
import { allPorts, drainRetired, isRetiredEmpty, type Ledger, release } from './ledger.ts';
import { acceptedAddresses, applyNodeAddresses } from './satellites/node.ts';
import { freeOrphans } from './service-port/backends.ts';

export interface TableSync {
  readonly ledger: Ledger;
  /** Makes the tables agree with the plan for these Services (`all`: every Service, and removes strays). */
  apply(plan: Plan, changed: Iterable<ServiceKey> | 'all'): SyncReport;
  /** Compares the tables with what was written and forgets what differs, so that the next apply writes it. */
  findDrift(): readonly Entry[];
  /** Every Service the kernel holds something of. */
  heldServices(): Iterable<ServiceKey>;
  /** Deletes frontends, and frees backends, found at start that no Service of a complete plan has claimed. */
  dropStray(): void;
  /** NodePort addresses from the plan and the addresses this node has now. */
  applyNode(plan: Plan, local: readonly NodeAddress[]): readonly FailedEntry[];
  /**
   * Makes what left reusable: waits until no program can hold it any more.
   * Calls that overlap share one wait. Resolves with false if there was nothing to release.
   */
  releaseRetired(): Promise<boolean>;
  /** What is retired from now on stays so. */
  close(): void;
}

/** @param waitGracePeriod resolves after every program that runs now has ended; never rejects */
export function createTableSync(tables: Tables, waitGracePeriod: () => Promise<void>): TableSync {
  const adopted = adopt(tables);
  const { ledger } = adopted;
  let { stray, orphans } = adopted;
  let isClosed = false;
  let releasing: Promise<boolean> | undefined;

  const releaseOnce = async (): Promise<boolean> => {
    if (isRetiredEmpty(ledger.retired)) return false;
    // What retires during one wait needs a wait of its own: the last change must not be forgotten.
    while (!isClosed && !isRetiredEmpty(ledger.retired)) {
      const batch = drainRetired(ledger);
      await waitGracePeriod();
      if (!isClosed) release(ledger, batch);
    }
    return true;
  };

  const dropStray = (): void => {
    dropStrayFrontends();
    // Only now does no frontend lead to them.
    freeOrphans(ledger, orphans);
    orphans = [];
  };

  /** A stray frontend may by now belong to a Service of the plan: then its value was replaced. */
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

  const apply = (plan: Plan, changed: Iterable<ServiceKey> | 'all'): SyncReport => {
    if (changed !== 'all') return applyPlan(ledger, plan, changed);
    const report = applyPlan(
      ledger,
      plan,
      new Set([...ledger.services.keys(), ...plan.services.keys()]),
    );
    dropStray();
    return report;
  };

  return {
    ledger,
    apply,
    heldServices: () => ledger.services.keys(),
    applyNode: (plan, local) => applyNodeAddresses(tables, acceptedAddresses(plan, local)),
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
