// SPDX-License-Identifier: Apache-2.0
// One dataplane of several. It knows what is held of each Service, also from before a restart, so that what
// another dataplane is to serve from now on stays here until that one has programmed it.
import { persistentMap } from '../../lib/persistent/map.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../plan/types.ts';
import type { AuditReport, Changed, Dataplane, NodeAddress, SyncReport } from '../dataplane.ts';
import { type Asked, createHoldings, type Holdings } from './holdings.ts';
import { isLess, type Sharing, shareKeeping } from './share.ts';

/** Whether every dataplane has just programmed its share of the Service. */
export type IsMade = (service: ServiceKey) => boolean;

export const createMember = (dataplane: Dataplane, sharing: Sharing): Member =>
  new Member(dataplane, sharing);

interface Request {
  readonly plan: Plan;
  readonly asked: Asked;
}

export class Member {
  readonly #dataplane: Dataplane;
  readonly #sharing: Sharing;
  /** undefined: not known, as at start and after an error. */
  #holdings: Holdings | undefined;
  /** Services of which it was asked to hold more than its share: that. */
  readonly #kept = new Map<ServiceKey, ServicePlan>();

  constructor(dataplane: Dataplane, sharing: Sharing) {
    this.#dataplane = dataplane;
    this.#sharing = sharing;
  }

  /** Programs its share, and keeps what now belongs to another. */
  async make(plan: Plan, changed: Changed, addresses: readonly NodeAddress[]): Promise<SyncReport> {
    const holdings = await this.#adopted();
    const keys = changed === 'all' ? everyKey(holdings, plan) : changed;
    const request = this.#keeping(plan, keys, holdings);
    return this.#noted(request.asked, () => this.#dataplane.sync(request.plan, changed, addresses));
  }

  async audit(plan: Plan, addresses: readonly NodeAddress[]): Promise<AuditReport> {
    const holdings = await this.#adopted();
    const request = this.#keeping(plan, everyKey(holdings, plan), holdings);
    let drift: AuditReport['drift'] = [];
    const report = await this.#noted(request.asked, async () => {
      const audited = await this.#dataplane.audit(request.plan, addresses);
      drift = audited.drift;
      return audited.report;
    });
    return { drift, report };
  }

  /** Whether it has kept anything of these Services. */
  owes(isMade: IsMade): boolean {
    return [...this.#kept.keys()].some(isMade);
  }

  /** Removes what it has kept of them. */
  removeMoved(plan: Plan, isMade: IsMade, addresses: readonly NodeAddress[]): Promise<SyncReport> {
    const keys = [...this.#kept.keys()].filter(isMade);
    for (const key of keys) this.#kept.delete(key);
    const request = this.#withKept(this.#sharing.planOf(plan));
    const asked = new Map(keys.map((key) => [key, request.services.get(key)]));
    return this.#noted(asked, () => this.#dataplane.sync(request, keys, addresses));
  }

  async #adopted(): Promise<Holdings> {
    this.#holdings ??= createHoldings(await this.#dataplane.held());
    return this.#holdings;
  }

  async #noted(asked: Asked, work: () => Promise<SyncReport>): Promise<SyncReport> {
    const holdings = this.#holdings;
    this.#holdings = undefined; // Known again if the work does not throw.
    const report = await work();
    holdings?.note(asked, report.failed);
    this.#holdings = holdings;
    return report;
  }

  /** The share, in which the Services that lose something to another dataplane still have it. */
  #keeping(plan: Plan, keys: readonly ServiceKey[], holdings: Holdings): Request {
    const held = holdings.of(keys);
    const share = this.#sharing.planOf(plan);
    for (const key of keys) {
      const service = plan.services.get(key);
      const kept =
        service && shareKeeping(service, this.#sharing.choice, (frontend) => held.has(frontend));
      if (kept !== undefined && isLess(share.services.get(key), kept)) this.#kept.set(key, kept);
      else this.#kept.delete(key);
    }
    const asking = this.#withKept(share);
    return { plan: asking, asked: new Map(keys.map((key) => [key, asking.services.get(key)])) };
  }

  /** Also what it has kept in an earlier sync: nobody else has programmed it yet. */
  #withKept(share: Plan): Plan {
    if (this.#kept.size === 0) return share;
    return { ...share, services: persistentMap(share.services).withChanges(this.#kept) };
  }
}

const everyKey = (holdings: Holdings, plan: Plan): readonly ServiceKey[] => [
  ...new Set([...plan.services.keys(), ...holdings.services()]),
];
