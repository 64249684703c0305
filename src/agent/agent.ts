// SPDX-License-Identifier: Apache-2.0
// The sync loop: changes from a source -> planner -> dataplane. Changes are coalesced within one turn of the
// event loop and while the dataplane is busy. Nothing is written before the source has delivered complete
// lists. Services that could not be programmed are retried with exponential backoff.
import type {
  AuditReport,
  Dataplane,
  FailedEntry,
  NodeAddress,
  SyncReport,
} from '../engines/dataplane.ts';
import type { Entry } from '../engines/entry.ts';
import { unservedServices } from '../engines/router/merge.ts';
import { FairleadError, reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { ObjectChange } from '../model/types.ts';
import type { NodeSockets } from '../plan/node-sockets/frontends.ts';
import type { Planner } from '../plan/planner.ts';
import type { Plan, ServiceKey } from '../plan/types.ts';
import type { NodeAddresses } from '../sys/netlink/node-addresses.ts';
import { NextBatch, type ServiceChanges } from './batch.ts';
import { createFailures, type Failures, type Work } from './failures.ts';
import { type ReadHeld, readIncumbents } from './incumbents.ts';
import { Retries } from './retries.ts';
import { createSyncLog, type SyncLog } from './sync-log.ts';

export interface AgentParts {
  readonly planner: Pick<Planner, 'apply' | 'nodesListed' | 'adopt' | 'hasConflicts' | 'nodeHas'>;
  readonly dataplane: Dataplane;
  readonly log: Logger;
  readonly addresses: NodeAddresses;
  readonly auditIntervalMs: number;
  /** What engines hold that this agent does not run, and an earlier one may have run. */
  readonly heldByOthers?: readonly ReadHeld[];
  /** Asked before anything of these Services is written. True: packets have moved, everything is to be written. */
  readonly beforeSync?: (plan: Plan, services: readonly ServiceKey[] | 'all') => Promise<boolean>;
}

export interface AgentListener {
  readonly onPlan?: (plan: Plan) => void;
  readonly onSync?: (facts: SyncFacts) => void;
}

/** One sync that the dataplane has answered. */
export interface SyncFacts {
  readonly plan: Plan;
  /** The Services of this sync. */
  readonly services: readonly ServiceKey[];
  /** Those of them that had changed and are programmed now. */
  readonly changes: ServiceChanges;
  readonly report: SyncReport;
  /** The sync was of every Service. */
  readonly isFull: boolean;
  /** No change is pending and no Service failed. */
  readonly isComplete: boolean;
}

export interface AgentState {
  readonly plan: Plan | undefined;
  /** True once the first complete plan is programmed. */
  readonly isReady: boolean;
  readonly readyAt: Date | undefined;
  readonly syncs: number;
  readonly lastSync: { readonly at: Date; readonly report: SyncReport } | undefined;
  /** Entries that are currently not programmed. */
  readonly failed: readonly FailedEntry[];
  /** Differences found and repaired by audits so far. */
  readonly driftTotal: number;
  readonly lastAuditAt: Date | undefined;
}

export interface Agent {
  /** Must be called before the first `accept`. */
  listen(listener: AgentListener): void;
  accept(changes: readonly ObjectChange[]): void;
  /** The source has delivered complete lists: the initial sync may start. */
  sourceSynced(): void;
  /** Every other Node there is has been accepted. */
  nodesListed(): void;
  /** What this node has itself: the plan follows. */
  nodeHas(sockets: NodeSockets): void;
  /** Packets have moved: everything is to be written. */
  packetsMoved(): void;
  /** Reads the programmed state back and repairs it now; resolves with the drift. */
  audit(): Promise<readonly Entry[]>;
  state(): AgentState;
  /** Stops all timers; the programmed state is kept. */
  stop(): void;
}

export function createAgent(parts: AgentParts): Agent {
  return new RunningAgent(parts);
}

class RunningAgent implements Agent {
  readonly #parts: AgentParts;
  readonly #failures: Failures;
  readonly #retries: Retries;
  readonly #auditTimer: NodeJS.Timeout;
  readonly #syncLog: SyncLog;
  #listeners: readonly AgentListener[] = [];
  #pending: ObjectChange[] = [];
  #plan: Plan | undefined;
  #addresses: readonly NodeAddress[];
  readonly #next = new NextBatch();
  #isSourceSynced = false;
  #isPlanDue = false;
  #isScheduled = false;
  #isSyncing = false;
  /** The dataplane has a batch that it has not answered yet. */
  #isBatchOut = false;
  #isStopped = false;
  #readyAt: Date | undefined;
  #syncs = 0;
  #lastSync: AgentState['lastSync'];
  #driftTotal = 0;
  #lastAuditAt: Date | undefined;

  constructor(parts: AgentParts) {
    this.#parts = parts;
    this.#failures = createFailures(parts.dataplane.capabilities.dataplane);
    this.#syncLog = createSyncLog(parts.log);
    this.#retries = new Retries(this.#failures, () => this.#retry());
    parts.dataplane.onRoom(() => this.#retries.roomMade());
    parts.dataplane.onLoss?.(() => void this.#auditOnTimer());
    this.#addresses = parts.addresses.current();
    parts.addresses.listen(() => this.#followAddresses());
    this.#auditTimer = setInterval(() => void this.#auditOnTimer(), parts.auditIntervalMs);
  }

  listen(listener: AgentListener): void {
    this.#listeners = [...this.#listeners, listener];
  }

  accept(changes: readonly ObjectChange[]): void {
    for (const change of changes) this.#pending.push(change);
    this.#schedule();
  }

  sourceSynced(): void {
    void this.#beginSyncs();
  }

  /** Nothing is written before it is known who serves a frontend that several ask for. */
  async #beginSyncs(): Promise<void> {
    if (this.#isSourceSynced) return;
    this.#absorb();
    const { planner, dataplane, heldByOthers = [], log } = this.#parts;
    if (planner.hasConflicts()) {
      planner.adopt(await readIncumbents([...heldByOthers, () => dataplane.held()], log));
      this.#isPlanDue = true;
    }
    this.#isSourceSynced = true;
    this.#syncAll();
  }

  nodesListed(): void {
    this.#parts.planner.nodesListed();
    this.#isPlanDue = true;
    this.#schedule();
  }

  nodeHas(sockets: NodeSockets): void {
    this.#parts.planner.nodeHas(sockets);
    this.#isPlanDue = true;
    this.#schedule();
  }

  packetsMoved(): void {
    this.#syncAll();
  }

  async audit(): Promise<readonly Entry[]> {
    const plan = this.#plan;
    if (plan === undefined || !this.#isSourceSynced) return [];
    try {
      const audited = await this.#parts.dataplane.audit(plan, this.#addresses);
      if (!this.#isStopped) this.#noteAudit(audited, plan);
      return audited.drift;
    } catch (error) {
      if (!this.#isStopped) this.#noteThrown(error, 'audit');
      throw error;
    }
  }

  state(): AgentState {
    return {
      plan: this.#plan,
      isReady: this.#readyAt !== undefined,
      readyAt: this.#readyAt,
      syncs: this.#syncs,
      lastSync: this.#lastSync,
      failed: this.#failures.all(),
      driftTotal: this.#driftTotal,
      lastAuditAt: this.#lastAuditAt,
    };
  }

  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#auditTimer);
    this.#retries.stop();
    this.#syncLog.close();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#isStopped) return;
      this.#absorb();
      if (this.#isSourceSynced && !this.#isSyncing) void this.#syncUntilDone();
    });
  }

  /** Changes -> plan. Also before the initial sync: planning writes nothing. */
  #absorb(): void {
    if (this.#pending.length === 0 && this.#plan !== undefined && !this.#isPlanDue) return;
    this.#isPlanDue = false;
    const changes = this.#pending;
    this.#pending = [];
    const delta = this.#parts.planner.apply(changes);
    this.#plan = delta.plan;
    this.#next.add(delta.changed);
    if (delta.isGlobal) this.#next.addAll();
    // Also for a change that affects no Service (a taint of the Node): health waits until it is synced.
    this.#next.owe();
    this.#retries.planned();
    for (const { onPlan } of this.#listeners) onPlan?.(delta.plan);
  }

  async #syncUntilDone(): Promise<void> {
    this.#isSyncing = true;
    try {
      while (!this.#isStopped && this.#next.isDue()) await this.#sync();
    } finally {
      this.#isSyncing = false;
    }
  }

  /** Syncs all dirty Services; changes that arrive meanwhile belong to the next sync. */
  async #sync(): Promise<void> {
    const plan = this.#plan;
    const { services: changed, changes, isFull: isAsked } = this.#next.take(plan);
    if (plan === undefined) return;
    const { dataplane, beforeSync } = this.#parts;
    try {
      const isFull = (await beforeSync?.(plan, isAsked ? 'all' : changed)) === true || isAsked;
      if (this.#isStopped) return;
      this.#isBatchOut = true;
      const report = await dataplane
        .sync(plan, isFull ? 'all' : changed, this.#addresses)
        .finally(() => {
          this.#isBatchOut = false;
        });
      if (this.#isStopped) return;
      const services = isFull ? [...new Set([...changed, ...plan.services.keys()])] : changed;
      const programmed = programmedOf(changes, report);
      this.#next.programmed(programmed);
      this.#note({ services, changes: programmed, report, isFull });
    } catch (error) {
      if (!this.#isStopped) this.#noteThrown(error, 'sync');
    }
  }

  #note(synced: Pick<SyncFacts, 'services' | 'changes' | 'report' | 'isFull'>): void {
    const { services, report, isFull } = synced;
    const { log } = this.#parts;
    const { applied, failed, elapsedMs } = report;
    if (services.length > 0) {
      this.#syncs++;
      this.#lastSync = { at: new Date(), report };
    }
    this.#failures.note({ services, isFull }, failed);
    if (failed.length > 0) {
      const fields = { services: services.length, applied, failed: failed.length };
      log.warn({ ...fields, first: failed[0] }, 'sync incomplete, will retry');
    } else if (applied > 0) {
      this.#syncLog.done(services.length, applied, elapsedMs);
    }
    this.#retries.noted();
    if (this.#plan === undefined) return;
    const facts = { plan: this.#plan, ...synced, isComplete: this.#isInSync() };
    for (const { onSync } of this.#listeners) onSync?.(facts);
    if (isFull && this.#readyAt === undefined) this.#becomeReady();
  }

  /** An audit may end while the dataplane still has the batch of a later change. */
  #isInSync(): boolean {
    const isPending = this.#isBatchOut || !this.#next.isEmpty() || this.#pending.length > 0;
    return (
      !isPending && !this.#failures.hasThrown('sync') && this.#failures.services().length === 0
    );
  }

  /** The error is not of single entries: every Service is retried. */
  #noteThrown(error: unknown, what: Work): void {
    this.#parts.log.error(fieldsOf(error), `${what} failed, will retry`);
    this.#failures.noteThrown(what, reasonOf(error));
    this.#retries.noted();
  }

  #noteAudit({ drift, report }: AuditReport, { services }: Plan): void {
    this.#lastAuditAt = new Date();
    this.#driftTotal += drift.length;
    if (drift.length > 0) {
      const first = drift.slice(0, 5).map(({ text }) => text);
      this.#parts.log.warn({ differences: drift.length, first }, 'audit found drift, repaired');
    }
    // It cannot tell which Services it has programmed anew: what has failed before is made up for by a sync.
    if (!this.#failures.isEmpty()) this.#syncAll();
    this.#failures.audited();
    this.#note({ services: [...services.keys()], changes: new Map(), report, isFull: true });
  }

  #retry(): void {
    this.#next.add(this.#failures.services());
    if (this.#failures.hasThrown('audit')) void this.#auditOnTimer();
    if (this.#failures.hasThrown('sync')) this.#next.addAll();
    this.#next.owe();
    this.#schedule();
  }

  #syncAll(): void {
    this.#next.addAll();
    this.#schedule();
  }

  #becomeReady(): void {
    this.#readyAt = new Date();
    const failed = this.#failures.all().length;
    this.#parts.log.info({ services: this.#plan?.services.size ?? 0, failed }, 'ready');
  }

  #followAddresses(): void {
    this.#addresses = this.#parts.addresses.current();
    this.#next.owe();
    if (this.#isSourceSynced) this.#schedule();
  }

  async #auditOnTimer(): Promise<void> {
    await this.audit().catch(() => undefined); // Noted where it fails.
  }
}

/** No stack trace of errors that tell the operator what to do. */
const fieldsOf = (error: unknown): { readonly reason: string } | { readonly err: unknown } =>
  error instanceof FairleadError ? { reason: error.message } : { err: error };

/** A Service of which an entry failed is as it was before, unless it is served in another way: it is retried. */
function programmedOf(changes: ServiceChanges, { failed }: SyncReport): ServiceChanges {
  const unprogrammed = unservedServices(failed);
  if (unprogrammed.size === 0) return changes;
  return new Map([...changes].filter(([key]) => !unprogrammed.has(key)));
}
