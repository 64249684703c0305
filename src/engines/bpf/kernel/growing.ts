// SPDX-License-Identifier: Apache-2.0
// A BPF dataplane that grows while the agent runs: it is closed, which leaves its programs attached, and opened over a larger
// table of connections, as a start with another --map-size does, or with programs that have more features. No connection is
// lost; changes wait for its end.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import type { Plan } from '../../../plan/types.ts';
import type { Changed, Dataplane, NodeAddress } from '../../dataplane.ts';
import { createTurns } from '../../router/turns.ts';
import type { Counters, DeviceView } from '../../snapshot.ts';
import { grownTo } from '../conn/growth.ts';
import { featureNames, featuresFor, withMore } from '../features.ts';
import type { Features } from '../layout/packet-layout.ts';
import type { Look } from './packet/sweeping.ts';

/** Connections that the table of each family is made for. */
export type Connections = Readonly<Record<Family, number>>;

export interface GrowingParts {
  /** `look` is called now and then, with how many connections there are. Throws FairleadError; then the programs are as before. */
  readonly open: (made: Connections, features: Features, look: Look) => Promise<Dataplane>;
  /** What the table is made for that is there now; without one, what it begins with. */
  readonly left: () => Connections;
  readonly firstFeatures: Features;
  readonly limit: number;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** After a failure. Memory may be short for a while. */
const AGAIN_MS = 600_000;

/** Throws FairleadError. */
export async function openGrowing(parts: GrowingParts): Promise<Dataplane> {
  const growing = new GrowingDataplane(parts);
  await growing.open();
  return growing;
}

class GrowingDataplane implements Dataplane {
  readonly #parts: GrowingParts;
  readonly #turns = createTurns();
  #made: Connections;
  #features: Features;
  /** Programs with more were refused: until then they are not retried. */
  #refusedUntilMs = 0;
  /** undefined: it is being opened, or could not be. */
  #inner: Dataplane | undefined;
  /** What the one before has shown last. */
  #shown: Pick<Dataplane, 'capabilities' | 'installation'> | undefined;
  #counters: Counters | undefined;
  #devices: readonly DeviceView[] = [];
  #hadDirectReturn = false;
  /** The next one is to be told the same, in this order. */
  readonly #told = new Map<string, (dataplane: Dataplane) => void>();
  #synced: { readonly plan: Plan; readonly addresses: readonly NodeAddress[] } | undefined;
  #isGrowing = false;
  #isClosed = false;
  #tellLoss: () => void = () => undefined;
  #cancelPause: () => void = () => undefined;
  #cancelRetry: () => void = () => undefined;

  constructor(parts: GrowingParts) {
    this.#parts = parts;
    this.#made = parts.left();
    this.#features = parts.firstFeatures;
  }

  async open(): Promise<void> {
    const { open } = this.#parts;
    const opened = await open(this.#made, this.#features, (occupancy) => this.#look(occupancy));
    if (this.#isClosed) {
      opened.close();
      throw closed();
    }
    this.#inner = opened;
    for (const tell of this.#told.values()) tell(opened);
  }

  get capabilities(): Dataplane['capabilities'] {
    return this.#latest().capabilities;
  }

  get installation(): Dataplane['installation'] {
    return this.#latest().installation;
  }

  sync(
    ...[plan, changed, addresses]: Parameters<Dataplane['sync']>
  ): ReturnType<Dataplane['sync']> {
    return this.#turn(async () => {
      const isLoadedAnew = await this.#loadFor(plan, changed);
      this.#synced = { plan, addresses };
      return await this.#opened().sync(plan, isLoadedAnew ? 'all' : changed, addresses);
    });
  }

  audit(...[plan, addresses]: Parameters<Dataplane['audit']>): ReturnType<Dataplane['audit']> {
    return this.#turn(async () => {
      if (await this.#loadFor(plan, 'all')) {
        this.#synced = { plan, addresses };
        await this.#opened().sync(plan, 'all', addresses);
      }
      return await this.#opened().audit(plan, addresses);
    });
  }

  held(): ReturnType<Dataplane['held']> {
    return this.#turn((inner) => inner.held());
  }

  heldDatagrams(): ReturnType<Dataplane['held']> {
    return this.#turn((inner) => inner.heldDatagrams?.() ?? inner.held());
  }

  snapshot(): ReturnType<Dataplane['snapshot']> {
    return this.#turn((inner) => inner.snapshot());
  }

  counters(): Counters {
    const counters = this.#inner?.counters() ?? this.#counters;
    if (counters === undefined) throw closed();
    return counters;
  }

  devices(): readonly DeviceView[] {
    return this.#inner?.devices?.() ?? this.#devices;
  }

  hadDirectReturn(): boolean {
    return this.#inner?.hadDirectReturn?.() ?? this.#hadDirectReturn;
  }

  leaveNewPackets(isLeft: boolean): void {
    this.#tell('leaveNewPackets', (inner) => inner.leaveNewPackets?.(isLeft));
  }

  servePackets(isServed: boolean): void {
    this.#tell('servePackets', (inner) => inner.servePackets?.(isServed));
  }

  packetsAreServed(by: 'itself' | 'another' | undefined): void {
    this.#tell('packetsAreServed', (inner) => inner.packetsAreServed?.(by));
  }

  onRoom(listener: () => void): void {
    this.#tell('onRoom', (inner) => inner.onRoom(listener));
  }

  onLoss(listener: () => void): void {
    this.#tellLoss = listener;
    this.#tell('onLoss', (inner) => inner.onLoss?.(listener));
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelPause();
    this.#cancelRetry();
    this.#inner?.close();
  }

  #latest(): Pick<Dataplane, 'capabilities' | 'installation'> {
    const latest = this.#inner ?? this.#shown;
    if (latest === undefined) throw closed();
    return latest;
  }

  #tell(what: string, tell: (dataplane: Dataplane) => void): void {
    this.#told.set(what, tell);
    if (this.#inner !== undefined) tell(this.#inner);
  }

  #turn<T>(work: (inner: Dataplane) => Promise<T>): Promise<T> {
    return this.#turns(async () => {
      if (this.#isClosed) throw closed();
      if (this.#inner === undefined) await this.#openAnew();
      return await work(this.#opened());
    });
  }

  #opened(): Dataplane {
    if (this.#inner === undefined) throw closed();
    return this.#inner;
  }

  /** Before the plan is programmed. True: its programs are others now, and nothing of it is programmed yet. */
  async #loadFor(plan: Plan, services: Changed): Promise<boolean> {
    const { clock, log } = this.#parts;
    const beganMs = clock.monotonicMs();
    const before = this.#features;
    const { capabilities, installation } = this.#latest();
    const wanted = withMore(before, featuresFor(plan, services, capabilities.directReturn));
    if (wanted === before || installation.refused.length > 0 || beganMs < this.#refusedUntilMs)
      return false;
    const features = featureNames(wanted);
    try {
      this.#leave();
      this.#features = wanted;
      await this.open();
      const tookMs = Math.round(clock.monotonicMs() - beganMs);
      log.info({ features, before: featureNames(before), tookMs }, 'packet programs loaded anew');
    } catch (error) {
      if (this.#isClosed) throw error;
      this.#features = before;
      this.#refusedUntilMs = beganMs + AGAIN_MS;
      // Perhaps nothing changes until then, and audits are seldom.
      this.#cancelRetry();
      this.#cancelRetry = clock.after(AGAIN_MS, () => this.#tellLoss());
      log.warn({ features, reason: reasonOf(error) }, REFUSED);
      if (this.#inner === undefined) await this.open();
    }
    return true;
  }

  #look(occupancy: Parameters<Look>[0]): void {
    if (this.#isGrowing || this.#isClosed) return;
    const { limit } = this.#parts;
    const [IPv4 = 0, IPv6 = 0] = FAMILIES.map((family) =>
      grownTo(occupancy[family], this.#made[family], limit),
    );
    if (IPv4 === this.#made.IPv4 && IPv6 === this.#made.IPv6) return;
    this.#isGrowing = true;
    void this.#turns(() => this.#grow({ IPv4, IPv6 }));
  }

  /** Never rejects. */
  async #grow(larger: Connections): Promise<void> {
    if (this.#isClosed) return;
    const { clock, log } = this.#parts;
    const before = this.#made;
    const beganMs = clock.monotonicMs();
    try {
      this.#leave();
      this.#made = larger;
      await this.#openAnew();
      const tookMs = Math.round(clock.monotonicMs() - beganMs);
      log.info({ connections: larger, before, tookMs }, 'the table of connections has grown');
      this.#isGrowing = false;
    } catch (error) {
      if (this.#isClosed) return;
      this.#made = this.#leftOr(before);
      const reason = reasonOf(error);
      log.warn(
        { connections: larger, reason },
        'the table of connections cannot grow: it stays as large as it is, and fairlead tries again in ten minutes',
      );
      this.#cancelPause = clock.after(AGAIN_MS, () => {
        this.#isGrowing = false;
      });
      if (this.#inner === undefined) await this.#openAnew().catch((again) => this.#noteLost(again));
    }
  }

  /** Maps of the larger table may have taken their place already: in smaller ones there may be too little room. */
  #leftOr(before: Connections): Connections {
    try {
      return this.#parts.left();
    } catch {
      return before;
    }
  }

  /** What is read meanwhile is what was read last. */
  #leave(): void {
    const inner = this.#inner;
    if (inner === undefined) return;
    const counters = inner.counters();
    const { connections, traffic } = counters;
    // They read maps that are closed by then, and can be read once only.
    this.#counters = {
      ...{ ...counters, connections: [...connections] },
      ...(traffic && { traffic: [...traffic] }),
    };
    this.#devices = inner.devices?.() ?? [];
    this.#hadDirectReturn = inner.hadDirectReturn?.() ?? false;
    this.#shown = { capabilities: inner.capabilities, installation: inner.installation };
    this.#inner = undefined;
    inner.close();
  }

  /** The next turn tries again. */
  #noteLost(error: unknown): void {
    if (!this.#isClosed)
      this.#parts.log.error(
        { reason: reasonOf(error) },
        'the dataplane is closed: Services do not change until it opens',
      );
  }

  /** Rejects if it cannot be opened. What is not programmed then is found by an audit. */
  async #openAnew(): Promise<void> {
    await this.open();
    if (this.#synced === undefined || this.#inner === undefined) return;
    const { plan, addresses } = this.#synced;
    const report = await this.#inner.sync(plan, 'all', addresses).catch(() => undefined);
    if (report === undefined || report.failed.length > 0) this.#tellLoss();
  }
}

const REFUSED =
  'packet programs cannot be loaded with what Services need: without IPv6 its packets are not served, and direct return is masqueraded; fairlead tries again in ten minutes';

const closed = (): Error => new Error('the dataplane is closed');
