// SPDX-License-Identifier: Apache-2.0
// One dataplane of several. It remembers what it was given of each Service, so that what another one is to
// serve from now on stays here until that other one has it.
import type { Plan, ServiceKey, ServicePlan } from '../plan/types.ts';
import type { AuditReport, Dataplane, NodeAddress, SyncReport } from './dataplane.ts';
import { mappedView } from './mapped-view.ts';
import { isLess, type Sharing, shareKeeping } from './share.ts';

type Changed = readonly ServiceKey[] | 'all';

export interface Member {
  /** Programs its share, and keeps what now belongs to another. */
  make(plan: Plan, changed: Changed, addresses: readonly NodeAddress[]): Promise<SyncReport>;
  audit(plan: Plan, addresses: readonly NodeAddress[]): Promise<AuditReport>;
  /** Whether it has kept anything of Services that did not fail. */
  owes(failed: ReadonlySet<ServiceKey | undefined>): boolean;
  /** Removes what it has kept, except of Services that failed. */
  removeMoved(
    plan: Plan,
    failed: ReadonlySet<ServiceKey | undefined>,
    addresses: readonly NodeAddress[],
  ): Promise<SyncReport>;
}

export const createMember = (dataplane: Dataplane, sharing: Sharing): Member =>
  new RememberingMember(dataplane, sharing);

class RememberingMember implements Member {
  readonly #dataplane: Dataplane;
  readonly #sharing: Sharing;
  /** What it was last given of each Service. */
  readonly #given = new Map<ServiceKey, ServicePlan>();
  /** Services of which it was given more than its share. */
  readonly #kept = new Set<ServiceKey>();

  constructor(dataplane: Dataplane, sharing: Sharing) {
    this.#dataplane = dataplane;
    this.#sharing = sharing;
  }

  make(plan: Plan, changed: Changed, addresses: readonly NodeAddress[]): Promise<SyncReport> {
    const keys = changed === 'all' ? this.#everyKey(plan) : changed;
    return this.#dataplane.sync(this.#keeping(plan, keys), changed, addresses);
  }

  audit(plan: Plan, addresses: readonly NodeAddress[]): Promise<AuditReport> {
    return this.#dataplane.audit(this.#keeping(plan, this.#everyKey(plan)), addresses);
  }

  owes(failed: ReadonlySet<ServiceKey | undefined>): boolean {
    return this.#unfailed(failed).length > 0;
  }

  async removeMoved(
    plan: Plan,
    failed: ReadonlySet<ServiceKey | undefined>,
    addresses: readonly NodeAddress[],
  ): Promise<SyncReport> {
    const keys = this.#unfailed(failed);
    const report = await this.#dataplane.sync(this.#sharing.planOf(plan), keys, addresses);
    for (const key of keys) {
      this.#kept.delete(key);
      this.#remember(key, this.#shareIn(plan, key));
    }
    return report;
  }

  #unfailed(failed: ReadonlySet<ServiceKey | undefined>): readonly ServiceKey[] {
    return [...this.#kept].filter((key) => !failed.has(key));
  }

  #everyKey(plan: Plan): readonly ServiceKey[] {
    return [...new Set([...plan.services.keys(), ...this.#given.keys()])];
  }

  /** The share, in which the Services that lose something to another dataplane still have it. */
  #keeping(plan: Plan, keys: readonly ServiceKey[]): Plan {
    const more = new Map<ServicePlan, ServicePlan>();
    for (const key of keys) {
      const service = plan.services.get(key);
      const share = service && this.#sharing.serviceOf(service);
      const kept = service && shareKeeping(service, this.#sharing.choice, this.#given.get(key));
      const isKeeping = service !== undefined && kept !== undefined && isLess(share, kept);
      if (isKeeping) {
        more.set(service, kept);
        this.#kept.add(key);
      } else {
        this.#kept.delete(key);
      }
      this.#remember(key, isKeeping ? kept : share);
    }
    if (more.size === 0) return this.#sharing.planOf(plan);
    const of = (service: ServicePlan): ServicePlan | undefined =>
      more.get(service) ?? this.#sharing.serviceOf(service);
    return { ...plan, services: mappedView(plan.services, of) };
  }

  #shareIn(plan: Plan, key: ServiceKey): ServicePlan | undefined {
    const service = plan.services.get(key);
    return service && this.#sharing.serviceOf(service);
  }

  #remember(key: ServiceKey, service: ServicePlan | undefined): void {
    if (service === undefined) this.#given.delete(key);
    else this.#given.set(key, service);
  }
}
