// SPDX-License-Identifier: Apache-2.0
// What of a plan is programmed, and so what is due: the Services that differ (===) from those of the last plan that was synced,
// and, in a retry, those that failed. In the first sync, and in a retry after an error, that is every Service.
import { differences, persistentMap } from '../../lib/persistent/map.ts';
import type { ServiceChange } from '../../plan/conntrack/stale-flows.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../plan/types.ts';
import type {
  AuditReport,
  Changed,
  ServiceChanges,
  Synced,
  SyncedAudit,
  SyncReport,
} from '../dataplane.ts';
import { unservedServices } from './merge.ts';

export class Progress {
  /** The last one that was synced or audited without an error, whatever failed of it. */
  #last: Plan | undefined;
  /** Services as they were last programmed. */
  #programmed = persistentMap<ServicePlan>();
  readonly #failed = new Set<ServiceKey>();
  #hasThrown = false;

  /** @param isRetry what failed is due again */
  async sync(
    plan: Plan,
    isRetry: boolean | undefined,
    work: (changed: Changed) => Promise<SyncReport>,
  ): Promise<Synced> {
    const changed = this.#due(plan, isRetry);
    const report = await work(changed).catch((error: unknown) => {
      this.#hasThrown = true;
      throw error;
    });
    return this.#note(plan, changed, report);
  }

  async audit(plan: Plan, work: () => Promise<AuditReport>): Promise<SyncedAudit> {
    const { drift, report } = await work();
    return { drift, ...this.#note(plan, 'all', report) };
  }

  #due(plan: Plan, isRetry = false): Changed {
    const last = this.#last;
    // What is node-wide has changed: the planner has made all of it anew.
    const isNew = last?.detector !== plan.detector;
    if (last === undefined || isNew || (isRetry && this.#hasThrown)) return 'all';
    const differing = differences(last.services, plan.services);
    return isRetry ? [...new Set([...differing, ...this.#failed])] : differing;
  }

  #note(plan: Plan, changed: Changed, report: SyncReport): Synced {
    const isFull = changed === 'all';
    const keys = isFull ? this.#every(plan) : changed;
    const changes = this.#changes(plan, keys, report);
    this.#programmed = this.#programmed.withChanges(
      [...changes].map(([key, { after }]) => [key, after] as const),
    );
    for (const key of keys) this.#failed.delete(key);
    for (const { service } of report.failed) if (service !== undefined) this.#failed.add(service);
    if (isFull) this.#hasThrown = false;
    this.#last = plan;
    return { report, services: keys, changes, isFull };
  }

  #every({ services }: Plan): readonly ServiceKey[] {
    const gone = [...(this.#last?.services.keys() ?? [])].filter((key) => !services.has(key));
    return [...services.keys(), ...gone];
  }

  /** A Service of which an entry failed is as it was before, unless it is served in another way. */
  #changes(
    { services }: Plan,
    keys: readonly ServiceKey[],
    { failed }: SyncReport,
  ): ServiceChanges {
    const changes = new Map<ServiceKey, ServiceChange>();
    const unserved = unservedServices(failed);
    for (const key of keys) {
      const [before, after] = [this.#programmed.get(key), services.get(key)];
      if (before !== after && !unserved.has(key)) changes.set(key, { before, after });
    }
    return changes;
  }
}
