// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane over Tables: adopts what the kernel holds, applies plans, audits, and hands out
// what was retired. No system call of its own.
import type { Plan, ServiceKey } from '../../plan/types.ts';
import type { ApplyReport, Dataplane, FailedEntry } from '../dataplane.ts';
import type { Tables } from './maps/tables.ts';
import { adopt } from './sync/adopt.ts';
import { applyPlan } from './sync/apply.ts';
import { findDrift } from './sync/audit.ts';
import { freeOrphans } from './sync/backends.ts';
import { allPorts, isRetiredEmpty, type Ledger, release, takeRetired } from './sync/ledger.ts';
import { acceptedAddresses, applyNodeAddresses, type LocalAddress } from './sync/node.ts';

export interface BpfDataplane extends Dataplane {
  readonly ledger: Ledger;
  /** Every Service the kernel holds something of. */
  heldServices(): Iterable<ServiceKey>;
  /** Deletes frontends, and frees backends, found at start that no Service of a complete plan has claimed. */
  dropStray(): void;
  /** NodePort addresses from the plan and the addresses this node has now. */
  applyNode(plan: Plan, local: readonly LocalAddress[]): readonly FailedEntry[];
  /**
   * Makes what left reusable: waits until no program can hold it any more.
   * Calls that overlap share one wait. Resolves with false if there was nothing to release.
   */
  releaseRetired(): Promise<boolean>;
}

/** @param waitGracePeriod resolves after every program that runs now has ended */
export function createBpfDataplane(
  tables: Tables,
  waitGracePeriod: () => Promise<void>,
  close: () => void = () => {},
): BpfDataplane {
  const adopted = adopt(tables);
  const { ledger } = adopted;
  let { stray, orphans } = adopted;
  let isClosed = false;
  let releasing: Promise<boolean> | undefined;

  const releaseOnce = async (): Promise<boolean> => {
    if (isRetiredEmpty(ledger.retired)) return false;
    // What retires during one wait needs a wait of its own: the last change must not be forgotten.
    while (!isClosed && !isRetiredEmpty(ledger.retired)) {
      const batch = takeRetired(ledger);
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
        owned.add(ledger.shadows.frontend.key(id, port.family).join());
      }
    }
    for (const { family, key } of stray) {
      if (!owned.has(key.join())) tables.frontend[family].delete([key]);
    }
    stray = [];
  };

  const apply = (plan: Plan, changed: readonly ServiceKey[] | 'all'): ApplyReport => {
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
    audit(plan) {
      const drift = findDrift(ledger);
      return { drift, report: apply(plan, 'all') };
    },
    releaseRetired() {
      releasing ??= releaseOnce().finally(() => {
        releasing = undefined;
      });
      return releasing;
    },
    dropStray,
    close() {
      isClosed = true;
      close();
    },
  };
}
