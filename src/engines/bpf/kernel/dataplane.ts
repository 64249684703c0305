// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane: schedules the synchronous work of TableSync. Syncs run in batches between which the event
// loop runs, start only after a grace period for ids that a previous agent retired, and release retired ids
// afterwards.
import type { Logger } from '../../../log.ts';
import type { Protocol } from '../../../model/types.ts';
import type { Plan, ServiceKey } from '../../../plan/types.ts';
import { inSlices } from '../../../sys/clock.ts';
import type { Capabilities } from '../../capabilities.ts';
import type {
  AuditReport,
  Changed,
  Dataplane,
  HeldFrontend,
  NodeAddress,
  SyncReport,
} from '../../dataplane.ts';
import type { Entry } from '../../entry.ts';
import { createTurns } from '../../router/turns.ts';
import type { Counters, DeviceView, Installation, Snapshot } from '../../snapshot.ts';
import { bootSeconds } from '../conn/clock.ts';
import { withoutDirectReturn } from '../direct-return/masqueraded.ts';
import { featureNames } from '../features.ts';
import {
  heldFrontends,
  portConnections,
  portTraffic,
  snapshotInSteps,
  tableFill,
} from '../inspect/view.ts';
import { hasService, isServed } from '../stale-sockets/served.ts';
import { createBatches } from '../state/batches.ts';
import { takeEnded } from '../state/ledger.ts';
import { applyWithRoom } from '../state/room.ts';
import { createTableSync, type TableSync } from '../state/table-sync.ts';
import type { Tables } from '../state/tables.ts';
import { createGracePeriods, type GracePeriods } from './grace-period.ts';
import type { PacketLayer } from './packet/layer.ts';
import type { SocketScopes } from './scope/open.ts';
import type { StaleSocketJudge, StaleSockets } from './stale-sockets/stale-sockets.ts';

export interface BpfParts {
  /** Of the layers that are loaded. */
  readonly capabilities: Capabilities;
  /** While rules serve packets; absent: the same. */
  readonly withoutPackets?: Capabilities;
  readonly tables: Tables;
  /** How long the former table of connections without records is needed; undefined: there are none. */
  readonly baseSeconds?: (protocol: Protocol) => number;
  /** Resolves after every program that runs now has ended. */
  readonly waitGracePeriod: () => Promise<void>;
  readonly installation: Installation;
  readonly outcomes: () => Readonly<Record<string, number>>;
  /** Keeps the node's address as the plan has it. */
  readonly followNode?: (node: Plan['node']) => void;
  /** undefined: stale sockets are left alone. */
  readonly staleSockets?: (judge: StaleSocketJudge) => StaleSockets;
  /** undefined: every socket is served. */
  readonly scopes?: SocketScopes;
  /** undefined: no programs on devices. */
  readonly packets?: Omit<
    PacketLayer,
    'traffic' | 'direct' | 'nameSockets' | 'noDirectReturn' | 'close'
  >;
  readonly close: () => void;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Services that lose a frontend and are written together. */
const LOSING = 50;
/** Work of an audit or a snapshot between two turns of the event loop. */
const SLICE_MS = 10;
/** Of making tables, between two turns. */
const TABLES_MS = 5;

/** Adopts the contents of the tables; nothing is written before the initial sync. */
export const createBpfDataplane = (parts: BpfParts): Dataplane => new BpfDataplane(parts);

class BpfDataplane implements Dataplane {
  capabilities: Capabilities;
  readonly installation: Installation;
  readonly #parts: BpfParts;
  readonly #grace: GracePeriods;
  readonly #turns = createTurns();
  readonly #staleSockets: StaleSockets | undefined;
  #core: TableSync;
  /** The plan as far as this kernel can do it. */
  readonly #withSupportedFeatures: (plan: Plan) => Plan;
  /** A previous agent may have died with ids and blocks that were retired but not released. */
  #adopted: Promise<void>;
  #isUnsure = false;
  /** Found by audits that an error has ended: the tables that are adopted after it show it no more. */
  #drift: Entry[] = [];
  /** The packet layer was told the Services of all syncs. */
  #isFollowed = false;
  #isClosed = false;
  #tellRoom = (): void => undefined;

  constructor(parts: BpfParts) {
    this.#parts = parts;
    this.capabilities = parts.capabilities;
    this.installation = parts.installation;
    const { noDirectReturn } = parts.capabilities;
    this.#withSupportedFeatures =
      noDirectReturn === undefined ? (plan) => plan : withoutDirectReturn();
    this.#grace = createGracePeriods(parts.waitGracePeriod, parts.log);
    this.#core = createTableSync(parts.tables, this.#grace.wait);
    this.#adopted = this.#grace.wait();
    this.#staleSockets = parts.staleSockets?.({
      isServed: (socket) => isServed(this.#core.ledger, socket),
      hasService: (socket) => hasService(this.#core.ledger, socket),
    });
  }

  sync(asked: Plan, changed: Changed, addresses: readonly NodeAddress[]): Promise<SyncReport> {
    const plan = this.#withSupportedFeatures(asked);
    // What a sync has not followed because of an error is followed by the next one, whatever that is of.
    const followed = this.#isFollowed ? changed : 'all';
    this.#isFollowed = false;
    return this.#turn(async (core) => {
      const undetected = core.applyDetector(plan);
      this.#parts.followNode?.(plan.node);
      // Programs begin with these settings, also for what an agent without the packet layer has programmed.
      this.#parts.packets?.follow(plan, followed);
      this.#isFollowed = true;
      core.followNodes(plan.node);
      this.#endBases(core);
      const report = await this.#apply(plan, changed === 'all' ? core.allServices(plan) : changed);
      if (this.#isClosed) return report;
      const failed = [...undetected, ...core.nodeAddresses.follow(plan, addresses)];
      if (changed === 'all') core.dropStray();
      this.#release(changed === 'all');
      this.#parts.packets?.begin();
      return failed.length === 0 ? report : { ...report, failed: [...report.failed, ...failed] };
    });
  }

  audit(asked: Plan, addresses: readonly NodeAddress[]): Promise<AuditReport> {
    const plan = this.#withSupportedFeatures(asked);
    return this.#turn(async (core) => {
      this.#parts.packets?.repair();
      for (const entry of this.#parts.packets?.audit(plan) ?? []) this.#drift.push(entry);
      await this.#findDrift(core);
      if (this.#isClosed) return { drift: this.#drift, report: sum([]) };
      const undetected = core.applyDetector(plan);
      this.#endBases(core);
      const report = await this.#apply(plan, core.allServices(plan));
      if (this.#isClosed) return { drift: this.#drift, report };
      core.dropStray();
      const node = core.nodeAddresses.audit(plan, addresses);
      this.#release(true);
      const drift = [...this.#drift, ...node.drift];
      this.#drift = [];
      const failed = [...report.failed, ...undetected, ...node.failed];
      return { drift, report: { ...report, failed } };
    });
  }

  held(): Promise<Iterable<HeldFrontend>> {
    return this.#turn(async (core) => [...heldFrontends(core.ledger)]);
  }

  async heldDatagrams(): Promise<Iterable<HeldFrontend>> {
    const held = [...(await this.held())];
    return held.filter(({ id }) => id.protocol === 'UDP' || id.protocol === 'SCTP');
  }

  /** A turn of its own: what is read in slices must not be written in between. */
  async snapshot(): Promise<Snapshot> {
    const { packets, tables } = this.#parts;
    const totals = await packets?.latestTotals();
    return this.#turns(async () => {
      const steps = snapshotInSteps(tables, totals);
      const read = await inSlices(steps, SLICE_MS, () => this.#isClosed);
      if (read === undefined) throw closed();
      return read;
    });
  }

  counters(): Counters {
    const { packets } = this.#parts;
    return {
      tables: [...tableFill(this.#core.ledger), ...(packets?.fill() ?? [])],
      outcomes: this.#parts.outcomes(),
      connections: portConnections(this.#core.ledger),
      ...(packets && {
        cookies: packets.cookies(),
        packetFeatures: featureNames(packets.features),
        traffic: portTraffic(this.#core.ledger, packets.totals),
      }),
      ...(this.#staleSockets && { staleSockets: this.#staleSockets.state() }),
      ...(this.#parts.scopes && { scope: this.#parts.scopes.view() }),
    };
  }

  devices(): readonly DeviceView[] {
    return this.#parts.packets?.devices() ?? [];
  }

  servePackets(isServed: boolean): void {
    const { capabilities, withoutPackets = capabilities } = this.#parts;
    this.capabilities = isServed ? capabilities : withoutPackets;
  }

  packetsAreServed(by: 'itself' | 'another' | undefined): void {
    const { scopes, packets } = this.#parts;
    const devices = by === 'itself' ? packets?.servedDevices : by && 'all';
    scopes?.packetsAreServed(devices);
  }

  hadDirectReturn(): boolean {
    return this.#parts.packets?.hadDirectReturn ?? false;
  }

  leaveNewPackets(isLeft: boolean): void {
    this.#parts.packets?.leaveNew(isLeft);
  }

  onRoom(listener: () => void): void {
    this.#tellRoom = listener;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#core.close();
    this.#grace.close();
    this.#staleSockets?.close();
    this.#parts.scopes?.close();
    this.#parts.close();
  }

  /** After an exception the ledger may differ from the tables: the next sync adopts them again. */
  #turn<T>(work: (core: TableSync) => Promise<T>): Promise<T> {
    return this.#turns(async () => {
      if (this.#isUnsure) this.#adoptAnew();
      await this.#adopted;
      if (this.#isClosed) throw closed();
      try {
        return await work(this.#core);
      } catch (error) {
        this.#isUnsure = true;
        throw error;
      }
    });
  }

  #adoptAnew(): void {
    this.#core.close();
    this.#core = createTableSync(this.#parts.tables, this.#grace.wait);
    this.#adopted = this.#grace.wait();
    this.#isUnsure = false;
  }

  /** It repairs in part what it finds. */
  async #findDrift(core: TableSync): Promise<void> {
    await inSlices(collected(core.findDrift(), this.#drift), SLICE_MS, () => this.#isClosed);
  }

  #endBases(core: TableSync): void {
    const { baseSeconds = () => 0 } = this.#parts;
    const now = bootSeconds();
    core.endBases((protocol, since) => now - since >= baseSeconds(protocol));
  }

  /** Ends with a turn of the event loop, unless there is nothing to make. */
  async #makeTables(plan: Plan, changed: Iterable<ServiceKey>): Promise<void> {
    const steps = this.#core.makeTables(plan, changed);
    if (steps.next().done === true) return;
    await inSlices(steps, TABLES_MS, () => this.#isClosed);
    await new Promise(setImmediate);
  }

  /**
   * Services that lose a frontend come last: another Service may have it by then. (Two that exchange frontends
   * do so in one batch, unless more than that lose one.)
   */
  async #apply(plan: Plan, changed: Iterable<ServiceKey>): Promise<SyncReport> {
    const reports: SyncReport[] = [];
    const losing: ServiceKey[] = [];
    const write = async (keys: readonly ServiceKey[]): Promise<number> => {
      if (reports.length > 0) await new Promise(setImmediate);
      if (!this.#isClosed) await this.#makeTables(plan, keys);
      if (this.#isClosed) return 0;
      const report = await applyWithRoom(this.#core, plan, keys, () => this.#isClosed);
      reports.push(report);
      return report.elapsedMs;
    };
    const batches = createBatches(plan, changed);
    for (let keys = batches.next(); keys.length > 0 && !this.#isClosed; keys = batches.next()) {
      const [first, last] = partition(keys, (key) => !this.#core.isLosing(plan, key));
      losing.push(...last);
      if (first.length > 0) batches.took(await write(first));
    }
    for (let from = 0; from < losing.length && !this.#isClosed; from += LOSING)
      await write(losing.slice(from, from + LOSING));
    return sum(reports);
  }

  /**
   * @param mayHaveStale sockets may be stale already: they became so before this agent started, or earlier passes
   * could not destroy them
   */
  #release(mayHaveStale: boolean): void {
    const ended = takeEnded(this.#core.ledger);
    const stale = this.#staleSockets;
    const isConcerned = ended.some((protocol) => stale?.concerns(protocol));
    if (mayHaveStale || isConcerned || stale?.isWaiting()) stale?.request();
    void this.#core.releaseRetired().then((isReleased) => {
      if (isReleased && !this.#isClosed) this.#tellRoom();
    });
  }
}

const closed = (): Error => new Error('the dataplane is closed');

function* collected<T>(parts: Iterable<readonly T[]>, all: T[]): Generator<void, void> {
  for (const part of parts) {
    for (const one of part) all.push(one);
    yield;
  }
}

function partition<T>(all: readonly T[], isFirst: (one: T) => boolean): readonly [T[], T[]] {
  const parts: readonly [T[], T[]] = [[], []];
  for (const one of all) parts[isFirst(one) ? 0 : 1].push(one);
  return parts;
}

const sum = (reports: readonly SyncReport[]): SyncReport => ({
  applied: reports.reduce((total, { applied }) => total + applied, 0),
  failed: reports.flatMap(({ failed }) => failed),
  elapsedMs: reports.reduce((total, { elapsedMs }) => total + elapsedMs, 0),
});
