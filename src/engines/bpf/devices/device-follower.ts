// SPDX-License-Identifier: Apache-2.0
// Keeps the packet programs on the devices that the policy chooses: when a device comes, goes, is renamed, gets an
// address or a master. A device that fails is retried, and affects no other.
import { reasonOf } from '../../../errors.ts';
import { createBackoff } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import type { NetworkFollower } from '../../../sys/netlink/network.ts';
import type { DeviceView } from '../../snapshot.ts';
import { type RowTarget, TrackedTable } from '../../tracked-table.ts';
import { codeOf } from '../errors.ts';
import type { DeviceValue } from '../layout/packet-layout.ts';
import { type DeviceLinks, DIRECTIONS, type Direction } from './device-links.ts';
import type { EarlyPath } from './early-path.ts';
import { type DeviceDecision, type DevicePolicy, decideDevices } from './policy.ts';
import { createProgramLoads, type ProgramLoads } from './program-loads.ts';

/** The map in which programs look up the device that they run on: JSON of a DeviceValue, by ifindex. */
export interface DeviceTable extends RowTarget<number, string> {
  /** Why a row was refused, and what to do. */
  refusal(code: string): string;
}

export interface DeviceFollowerParts {
  readonly network: Pick<NetworkFollower, 'current' | 'listen'>;
  readonly policy: DevicePolicy;
  readonly links: DeviceLinks;
  readonly table: DeviceTable;
  /** What forwards before the programs of tc. */
  readonly early?: readonly EarlyPath[];
  readonly clock: Clock;
  /** This process has said what is attached, and only loads other programs. */
  readonly isAgain?: boolean | undefined;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Adopts what an earlier agent attached, and attaches what is missing. */
export const createDeviceFollower = (parts: DeviceFollowerParts): DeviceFollower =>
  new DeviceFollower(parts);

interface Held {
  name: string;
  isL3: boolean;
  readonly directions: Set<Direction>;
}

interface Failure {
  readonly reason: string;
  /** The device has gone, and the kernel is about to say so. */
  readonly isGone: boolean;
}

/** In this order: reverse translation works before any request is translated. */
const ATTACH_ORDER: readonly Direction[] = ['egress', 'ingress'];
const NAMED = 5;

export class DeviceFollower {
  readonly #parts: DeviceFollowerParts;
  readonly #entries: TrackedTable<number, string>;
  readonly #early: readonly EarlyPath[];
  readonly #held = new Map<number, Held>();
  readonly #failures = new Map<number, Failure>();
  readonly #backoff;
  readonly #loads: ProgramLoads;
  readonly #stopListening: () => void;
  #isStarted = false;
  #decisions: readonly DeviceDecision[] = [];
  #cancelRetry: (() => void) | undefined;
  #isClosed = false;

  constructor(parts: DeviceFollowerParts) {
    this.#parts = parts;
    this.#early = parts.early ?? [];
    this.#entries = new TrackedTable(parts.table);
    this.#backoff = createBackoff(
      { firstMs: 100, maxMs: 30_000, jitter: 'equal' },
      parts.clock.random,
    );
    this.#loads = createProgramLoads(parts.links, parts.clock, () => {
      if (!this.#isClosed) this.#reconcile();
    });
    for (const { ifindex, name, isL3, direction } of parts.links.adopt()) {
      this.#hold(ifindex, { name, isL3 }).directions.add(direction);
    }
    const adopted = this.#held.size;
    // Of devices that went while no agent ran.
    for (const ifindex of this.#entries.adopt()) {
      if (!this.#held.has(ifindex)) this.#entries.delete(ifindex);
    }
    this.#reconcile();
    if (parts.isAgain !== true)
      parts.log.info({ devices: this.#held.size, adopted }, 'devices attached');
    this.#isStarted = true;
    this.#stopListening = parts.network.listen(() => this.#reconcile());
  }

  /** Every device of the namespace. */
  devices(): readonly DeviceView[] {
    return this.#decisions.map((decision) => this.#view(decision));
  }

  /** As of the last change, by name. */
  decisions(): readonly (DeviceDecision & { readonly isAttached: boolean })[] {
    return this.#decisions.map((one) => ({ ...one, isAttached: this.#isAttached(one) }));
  }

  /** Writes what has changed of early paths. */
  refresh(): void {
    if (!this.#isClosed) this.#reconcile();
  }

  /** Attaches again what somebody else has removed; returns the names of these devices. */
  repair(): readonly string[] {
    const lost: string[] = [];
    for (const [ifindex, { name, directions }] of this.#held) {
      const gone = [...directions].filter((one) => !this.#isThere(ifindex, one));
      if (gone.length === 0) continue;
      for (const direction of gone) {
        this.#try(ifindex, () => this.#parts.links.detach(ifindex, direction));
        directions.delete(direction);
      }
      lost.push(name);
    }
    if (lost.length > 0) this.#reconcile();
    return lost;
  }

  /** Stops following; programs stay attached. Idempotent. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopListening();
    this.#cancelRetry?.();
  }

  #reconcile(): void {
    const { network, policy } = this.#parts;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    const before = new Map(this.#failures);
    this.#failures.clear();
    this.#decisions = decideDevices(network.current(), policy);
    const wanted = this.#decisions.filter(({ isWanted }) => isWanted);
    const detached = this.#detachOthers(wanted);
    this.#rename(wanted);
    for (const decision of wanted) this.#enter(decision);
    this.#writeEntries();
    const served = wanted.filter((decision) => this.#hasPrograms(decision));
    const attached = new Set(ATTACH_ORDER.flatMap((one) => this.#attach(served, one)));
    this.#report({ attached: [...attached], detached, before });
    for (const path of this.#early) path.onChange();
  }

  /** If they are being loaded, the device is reconciled again after that. */
  #hasPrograms({ isL3, link: { ifindex } }: DeviceDecision): boolean {
    const state = this.#loads.request(isL3);
    if (state.kind === 'refused') {
      this.#failures.set(ifindex, { reason: state.reason, isGone: false });
    }
    return state.kind === 'loaded';
  }

  /** Also those whose link header changed: they get other programs. */
  #detachOthers(wanted: readonly DeviceDecision[]): readonly string[] {
    const keeps = new Map(wanted.map(({ link, isL3 }) => [link.ifindex, isL3]));
    return [...this.#held].flatMap(([ifindex, held]) => {
      if (keeps.get(ifindex) === held.isL3) return [];
      return this.#detach(ifindex, held) ? [held.name] : [];
    });
  }

  /** Ingress first: no request is translated whose replies are not. */
  #detach(ifindex: number, { directions }: Held): boolean {
    const { links } = this.#parts;
    return this.#try(ifindex, () => {
      for (const path of this.#early) path.leave(ifindex);
      for (const direction of DIRECTIONS) {
        if (!directions.has(direction)) continue;
        links.detach(ifindex, direction);
        directions.delete(direction);
      }
      this.#entries.delete(ifindex);
      this.#held.delete(ifindex);
    });
  }

  #rename(wanted: readonly DeviceDecision[]): void {
    const renamed = new Map<number, string>();
    for (const { link } of wanted) {
      const held = this.#held.get(link.ifindex);
      if (held !== undefined && held.name !== link.name) renamed.set(link.ifindex, link.name);
    }
    if (renamed.size === 0) return;
    const [first = 0] = renamed.keys();
    this.#try(first, () => {
      this.#parts.links.rename(renamed);
      for (const [ifindex, name] of renamed) this.#hold(ifindex, { name }).name = name;
    });
  }

  /** To be written before the programs that look it up are attached. */
  #enter({ link: { ifindex, name, mac }, ...decision }: DeviceDecision): void {
    const takesFrames = this.#early.some((path) => path.isTarget(ifindex));
    const isServed = this.#early.some((path) => path.isServed(ifindex));
    const { isL3, isPod, dropsOthers, isUplink, role, snat } = decision;
    const [leadsToPod, isTunnel] = [role === 'pod', role === 'tunnel'];
    const flags = { isPod, leadsToPod, takesFrames, dropsOthers, isUplink, isTunnel };
    const value: DeviceValue = { ifindex, snat, ...flags, mac: isServed ? mac : undefined };
    this.#hold(ifindex, { name, isL3 });
    this.#entries.set(ifindex, JSON.stringify(value));
  }

  #writeEntries(): void {
    for (const { key, code } of this.#entries.write()) {
      this.#failures.set(key, { reason: this.#parts.table.refusal(code), isGone: false });
    }
  }

  #attach(wanted: readonly DeviceDecision[], direction: Direction): readonly string[] {
    return wanted.flatMap(({ link: { ifindex, name }, isL3 }) => {
      const held = this.#hold(ifindex, { name, isL3 });
      if (held.directions.has(direction) || this.#failures.has(ifindex)) return [];
      const isDone = this.#try(ifindex, () => {
        this.#parts.links.attach({ ifindex, name, isL3 }, direction);
        held.directions.add(direction);
      });
      return isDone ? [name] : [];
    });
  }

  #hold(ifindex: number, { name, isL3 = false }: { name: string; isL3?: boolean }): Held {
    const held = this.#held.get(ifindex) ?? { name, isL3, directions: new Set() };
    this.#held.set(ifindex, held);
    return held;
  }

  #try(ifindex: number, work: () => void): boolean {
    try {
      work();
      return true;
    } catch (error) {
      this.#failures.set(ifindex, { reason: reasonOf(error), isGone: codeOf(error) === 'ENODEV' });
      return false;
    }
  }

  #isThere(ifindex: number, direction: Direction): boolean {
    try {
      return this.#parts.links.isAttached(ifindex, direction);
    } catch {
      return false;
    }
  }

  #report(changes: {
    readonly attached: readonly string[];
    readonly detached: readonly string[];
    readonly before: ReadonlyMap<number, Failure>;
  }): void {
    const { log, clock } = this.#parts;
    const { attached, detached, before } = changes;
    if (this.#isStarted && attached.length + detached.length > 0) {
      const names = { attached: attached.slice(0, NAMED), detached: detached.slice(0, NAMED) };
      log.info({ ...names, devices: this.#held.size }, 'devices changed');
    }
    for (const [ifindex, { reason, isGone }] of this.#failures) {
      if (isGone || before.get(ifindex)?.reason === reason) continue;
      const device = this.#held.get(ifindex)?.name ?? String(ifindex);
      log.warn({ device, reason }, 'device not attached, will retry');
    }
    if (this.#failures.size === 0) this.#backoff.reset();
    else this.#cancelRetry = clock.after(this.#backoff.nextMs(), () => this.#reconcile());
  }

  #isAttached({ link: { ifindex }, isWanted }: DeviceDecision): boolean {
    return isWanted && this.#held.get(ifindex)?.directions.size === DIRECTIONS.length;
  }

  #view(decision: DeviceDecision): DeviceView {
    const { link, role, reason, snat } = decision;
    const { ifindex, name, kind } = link;
    const failure = this.#failures.get(ifindex);
    return {
      ...{ name, ifindex, kind, role, isAttached: this.#isAttached(decision) },
      ...Object.assign({}, ...this.#early.map((path) => path.view(ifindex))),
      reason: failure?.reason ?? reason,
      isFailed: failure !== undefined,
      ingress: this.#order(ifindex, 'ingress'),
      egress: this.#order(ifindex, 'egress'),
      snat,
    };
  }

  #order(ifindex: number, direction: Direction): readonly string[] {
    try {
      return this.#parts.links.order(ifindex, direction);
    } catch {
      return []; // The device has just gone.
    }
  }
}
