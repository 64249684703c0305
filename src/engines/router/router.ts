// SPDX-License-Identifier: Apache-2.0
// Several dataplanes behind the seam as if they were one: each is given its share of the plan (share.ts),
// and what they answer is merged. None waits for another, and one that fails keeps none from its work.
// What moves from one to another is programmed by the new one before the old one removes it.

import type { Plan } from '../../plan/types.ts';
import type { Capabilities } from '../capabilities.ts';
import type {
  AuditReport,
  Changed,
  ComposedDataplane,
  Dataplane,
  HeldFrontend,
  NodeAddress,
  Synced,
  SyncedAudit,
  SyncReport,
} from '../dataplane.ts';
import type { Entry } from '../entry.ts';
import type { Counters, DeviceView, Fallback, Installation, Snapshot } from '../snapshot.ts';
import { createMember, type IsMade, type Member } from './member.ts';
import {
  allOf,
  mergeCapabilities,
  mergeCounters,
  mergeInstallations,
  mergeReports,
  mergeSnapshots,
  unservedServices,
} from './merge.ts';
import { Progress } from './progress.ts';
import { createSharing } from './share.ts';
import { createTurns } from './turns.ts';

/**
 * @param dataplanes in the order in which they are asked; at least one
 * @param fallback why the last one is among them, if --engine auto has added it
 * @param progress of the router that this one replaces
 */
export function createRouter(
  dataplanes: readonly [Dataplane, ...Dataplane[]],
  fallback?: Fallback,
  progress = new Progress(),
): ComposedDataplane {
  const [first, ...others] = dataplanes;
  tellOfPackets(dataplanes);
  return others.length === 0
    ? onlyOne(first, progress, fallback)
    : new Router(dataplanes, progress, fallback);
}

/** The sockets of pods that a dataplane leaves alone come to the first one that translates packets. */
function tellOfPackets(dataplanes: readonly Dataplane[]): void {
  const serving = dataplanes.find(({ capabilities }) => capabilities.serves.outside !== undefined);
  for (const dataplane of dataplanes) {
    const by = serving === dataplane ? 'itself' : 'another';
    dataplane.packetsAreServed?.(serving === undefined ? undefined : by);
  }
}

/** Nothing can move, so there is nothing to order and nothing to remember. */
function onlyOne(dataplane: Dataplane, progress: Progress, fallback?: Fallback): ComposedDataplane {
  const sharing = createSharing([dataplane.capabilities], 0);
  return {
    capabilities: dataplane.capabilities,
    dataplanes: [dataplane.capabilities],
    installation: mergeInstallations([dataplane], fallback),
    sync: (plan, addresses, isRetry) =>
      progress.sync(plan, isRetry, (changed) =>
        dataplane.sync(sharing.planOf(plan), changed, addresses),
      ),
    ...(dataplane.untilDue && { untilDue: () => dataplane.untilDue?.() ?? Promise.resolve() }),
    audit: (plan, addresses) =>
      progress.audit(plan, () => dataplane.audit(sharing.planOf(plan), addresses)),
    held: () => dataplane.held(),
    heldDatagrams: () => datagramsOf(dataplane),
    snapshot: () => dataplane.snapshot(),
    counters: () => dataplane.counters(),
    devices: () => dataplane.devices?.() ?? [],
    hadDirectReturn: () => dataplane.hadDirectReturn?.() ?? false,
    leaveNewPackets: (isLeft) => dataplane.leaveNewPackets?.(isLeft),
    onRoom: (listener) => dataplane.onRoom(listener),
    onLoss: (listener) => dataplane.onLoss?.(listener),
    ...(dataplane.drain && { drain: dataplane.drain.bind(dataplane) }),
    ...(dataplane.serveOn && { serveOn: dataplane.serveOn.bind(dataplane) }),
    close: () => dataplane.close(),
  };
}

const datagramsOf = (dataplane: Dataplane): Promise<Iterable<HeldFrontend>> =>
  dataplane.heldDatagrams?.() ?? dataplane.held();

/** Of a Service that failed, or that an earlier sync has left as it was, nothing is removed: the next try of it does that. */
function isMadeIn(reports: readonly SyncReport[], keys: Changed): IsMade {
  const failed = unservedServices(reports.flatMap((report) => report.failed));
  const asked = keys === 'all' ? undefined : new Set(keys);
  return (service) => !failed.has(service) && (asked?.has(service) ?? true);
}

class Router implements ComposedDataplane {
  readonly capabilities: Capabilities;
  readonly dataplanes: readonly Capabilities[];
  readonly installation: Installation;
  readonly #all: readonly Dataplane[];
  readonly #members: readonly Member[];
  readonly #turns = createTurns();
  readonly #progress: Progress;
  /** Rules that are to serve packets in the place of eBPF, as long as they have not been written. */
  #unwritten: Member | undefined;
  /** Of members whose audit has succeeded where another's has not. */
  #drift: readonly Entry[] = [];

  constructor(
    dataplanes: readonly [Dataplane, ...Dataplane[]],
    progress: Progress,
    fallback?: Fallback,
  ) {
    this.#progress = progress;
    const capabilities = dataplanes.map((dataplane) => dataplane.capabilities);
    this.dataplanes = capabilities;
    this.capabilities = mergeCapabilities(capabilities);
    this.installation = mergeInstallations(dataplanes, fallback);
    this.#all = dataplanes;
    this.#members = dataplanes.map((dataplane, index) =>
      createMember(dataplane, createSharing(capabilities, index)),
    );
    this.#unwritten = fallback?.what === 'packets' ? this.#members.at(-1) : undefined;
  }

  sync(plan: Plan, addresses: readonly NodeAddress[], isRetry?: boolean): Promise<Synced> {
    return this.#turns(() =>
      this.#progress.sync(plan, isRetry, (changed) => this.#sync(plan, changed, addresses)),
    );
  }

  async #sync(
    plan: Plan,
    changed: Changed,
    addresses: readonly NodeAddress[],
  ): Promise<SyncReport> {
    const make = (member: Member): Promise<SyncReport> => member.make(plan, changed, addresses);
    const made = await (this.#unwritten === undefined
      ? allOf(this.#members, make)
      : this.#rulesFirst(this.#unwritten, make));
    const isMade = isMadeIn(made, changed);
    const removed = await this.#removeMoved(plan, isMade, addresses);
    return mergeReports([...made, ...removed]);
  }

  /** Packets of eBPF must not serve a new frontend for a moment, nor one whose rules fail: a firewall may close it. */
  async #rulesFirst(
    rules: Member,
    make: (member: Member) => Promise<SyncReport>,
  ): Promise<readonly SyncReport[]> {
    const made = await make(rules);
    this.leaveNewPackets(true);
    this.#unwritten = undefined;
    const others = this.#members.filter((member) => member !== rules);
    return [...(await allOf(others, make)), made];
  }

  audit(plan: Plan, addresses: readonly NodeAddress[]): Promise<SyncedAudit> {
    return this.#turns(() => this.#progress.audit(plan, () => this.#audit(plan, addresses)));
  }

  async #audit(plan: Plan, addresses: readonly NodeAddress[]): Promise<AuditReport> {
    const audits = await allOf(this.#members, async (member) => {
      const audited = await member.audit(plan, addresses);
      this.#drift = [...this.#drift, ...audited.drift];
      return audited;
    });
    const made = audits.map(({ report }) => report);
    const removed = await this.#removeMoved(plan, isMadeIn(made, 'all'), addresses);
    const drift = this.#drift;
    this.#drift = [];
    return { drift, report: mergeReports([...made, ...removed]) };
  }

  #removeMoved(
    plan: Plan,
    isMade: IsMade,
    addresses: readonly NodeAddress[],
  ): Promise<readonly SyncReport[]> {
    const owing = this.#members.filter((member) => member.owes(isMade));
    return allOf(owing, (member) => member.removeMoved(plan, isMade, addresses));
  }

  async held(): Promise<Iterable<HeldFrontend>> {
    return (await allOf(this.#all, (dataplane) => dataplane.held())).flatMap((all) => [...all]);
  }

  async heldDatagrams(): Promise<Iterable<HeldFrontend>> {
    const held = await allOf(this.#all, (dataplane) => datagramsOf(dataplane));
    return held.flatMap((all) => [...all]);
  }

  async snapshot(): Promise<Snapshot> {
    return mergeSnapshots(await allOf(this.#all, (dataplane) => dataplane.snapshot()));
  }

  counters(): Counters {
    return mergeCounters(this.#all.map((dataplane) => dataplane.counters()));
  }

  devices(): readonly DeviceView[] {
    return this.#all.flatMap((dataplane) => dataplane.devices?.() ?? []);
  }

  hadDirectReturn(): boolean {
    return this.#all.some((dataplane) => dataplane.hadDirectReturn?.() ?? false);
  }

  leaveNewPackets(isLeft: boolean): void {
    for (const dataplane of this.#all) dataplane.leaveNewPackets?.(isLeft);
  }

  onRoom(listener: () => void): void {
    for (const dataplane of this.#all) dataplane.onRoom(listener);
  }

  onLoss(listener: () => void): void {
    for (const dataplane of this.#all) dataplane.onLoss?.(listener);
  }

  close(): void {
    const errors: unknown[] = [];
    for (const dataplane of this.#all) {
      try {
        dataplane.close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
