// SPDX-License-Identifier: Apache-2.0
// The sync loop: changes from a source -> planner -> dataplane. Changes are coalesced within one turn of the
// event loop and while the dataplane is busy. Nothing is written before the source has delivered complete
// lists. Services that could not be programmed are retried with exponential backoff.
import type {
  ComposedDataplane,
  FailedEntry,
  NodeAddress,
  Synced,
  SyncedAudit,
  SyncReport,
} from '../engines/dataplane.ts';
import type { Entry } from '../engines/entry.ts';
import { FairleadError, reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { ObjectChange } from '../model/types.ts';
import type { NodeSockets } from '../plan/node-sockets/frontends.ts';
import type { Planner } from '../plan/planner.ts';
import type { Plan } from '../plan/types.ts';
import type { NodeAddresses } from '../sys/netlink/node-addresses.ts';
import { createFailures, type Failures, type Work } from './failures.ts';
import { type ReadHeld, readIncumbents } from './incumbents.ts';
import { Retries } from './retries.ts';
import { createSyncLog, type SyncLog } from './sync-log.ts';

export interface AgentParts {
  readonly planner: Pick<Planner, 'apply' | 'nodesListed' | 'adopt' | 'hasConflicts' | 'nodeHas'>;
  readonly dataplane: ComposedDataplane;
  readonly log: Logger;
  readonly addresses: NodeAddresses;
  readonly auditIntervalMs: number;
  /** What engines hold that this agent does not run, and an earlier one may have run. */
  readonly heldByOthers?: readonly ReadHeld[];
  /** Awaited before anything of this plan is written. */
  readonly beforeSync?: (plan: Plan) => Promise<void>;
}

export interface AgentListener {
  readonly onPlan?: (plan: Plan) => void;
  readonly onSync?: (facts: SyncFacts) => void;
}

/** One sync that the dataplane has answered. */
export interface SyncFacts extends Synced {
  readonly plan: Plan;
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

export function createAgent(parts: AgentParts): Agent {
  return new Agent(parts);
}

export class Agent {
  readonly #parts: AgentParts;
  readonly #failures: Failures;
  readonly #retries: Retries;
  readonly #auditTimer: NodeJS.Timeout;
  readonly #syncLog: SyncLog;
  #listeners: readonly AgentListener[] = [];
  #pending: ObjectChange[] = [];
  #plan: Plan | undefined;
  #addresses: readonly NodeAddress[];
  /** Something has changed since the last sync began. */
  #isDue = false;
  #isRetryDue = false;
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

  /** Must be called before the first `accept`. */
  listen(listener: AgentListener): void {
    this.#listeners = [...this.#listeners, listener];
  }

  accept(changes: readonly ObjectChange[]): void {
    for (const change of changes) this.#pending.push(change);
    this.#schedule();
  }

  /** The source has delivered complete lists: the initial sync may start. */
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
    this.#syncSoon();
  }

  /** Every other Node there is has been accepted. */
  nodesListed(): void {
    this.#parts.planner.nodesListed();
    this.#isPlanDue = true;
    this.#schedule();
  }

  /** What this node has itself: the plan follows. */
  nodeHas(sockets: NodeSockets): void {
    this.#parts.planner.nodeHas(sockets);
    this.#isPlanDue = true;
    this.#schedule();
  }

  /** Packets have moved: a sync is due. */
  packetsMoved(): void {
    this.#syncSoon();
  }

  /** Reads the programmed state back and repairs it now; resolves with the drift. */
  async audit(): Promise<readonly Entry[]> {
    const plan = this.#plan;
    if (plan === undefined || !this.#isSourceSynced) return [];
    try {
      const audited = await this.#parts.dataplane.audit(plan, this.#addresses);
      if (!this.#isStopped) this.#noteAudit(audited);
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

  /** Stops all timers; the programmed state is kept. */
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
    const plan = this.#parts.planner.apply(changes);
    this.#plan = plan;
    // Also for a change that affects no Service (a taint of the Node): health waits until it is synced.
    this.#isDue = true;
    this.#retries.planned();
    for (const { onPlan } of this.#listeners) onPlan?.(plan);
  }

  async #syncUntilDone(): Promise<void> {
    this.#isSyncing = true;
    try {
      while (!this.#isStopped && this.#isDue) await this.#sync();
    } finally {
      this.#isSyncing = false;
    }
  }

  /** Changes that arrive meanwhile belong to the next sync; what arrives while the dataplane pauses, to this one. */
  async #sync(): Promise<void> {
    await this.#parts.dataplane.untilDue?.();
    if (this.#isStopped) return;
    const plan = this.#plan;
    const isRetry = this.#isRetryDue;
    this.#isDue = false;
    this.#isRetryDue = false;
    if (plan === undefined) return;
    const { dataplane, beforeSync } = this.#parts;
    try {
      await beforeSync?.(plan);
      if (this.#isStopped) return;
      this.#isBatchOut = true;
      const synced = await dataplane.sync(plan, this.#addresses, isRetry).finally(() => {
        this.#isBatchOut = false;
      });
      if (this.#isStopped) return;
      if (isRetry) this.#failures.succeeded('sync');
      this.#note(synced);
    } catch (error) {
      if (!this.#isStopped) this.#noteThrown(error, 'sync');
    }
  }

  #note(synced: Synced): void {
    const { services, report, isFull } = synced;
    const { log } = this.#parts;
    const { applied, failed, elapsedMs } = report;
    if (services.length > 0) {
      this.#syncs++;
      this.#lastSync = { at: new Date(), report };
    }
    if (isFull) this.#failures.succeeded('sync');
    this.#failures.note(services, failed, isFull);
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
    const isPending = this.#isBatchOut || this.#isDue || this.#pending.length > 0;
    return (
      !isPending && !this.#failures.hasThrown('sync') && this.#failures.services().length === 0
    );
  }

  /** The error is not of single entries. */
  #noteThrown(error: unknown, what: Work): void {
    this.#parts.log.error(fieldsOf(error), `${what} failed, will retry`);
    this.#failures.noteThrown(what, reasonOf(error));
    this.#retries.noted();
  }

  #noteAudit({ drift, ...synced }: SyncedAudit): void {
    this.#lastAuditAt = new Date();
    this.#driftTotal += drift.length;
    if (drift.length > 0) {
      const first = drift.slice(0, 5).map(({ text }) => text);
      this.#parts.log.warn({ differences: drift.length, first }, 'audit found drift, repaired');
    }
    this.#failures.succeeded('audit');
    this.#note(synced);
  }

  #retry(): void {
    if (this.#failures.hasThrown('audit')) void this.#auditOnTimer();
    this.#isRetryDue = true;
    this.#syncSoon();
  }

  #syncSoon(): void {
    this.#isDue = true;
    this.#schedule();
  }

  #becomeReady(): void {
    this.#readyAt = new Date();
    const failed = this.#failures.all().length;
    this.#parts.log.info({ services: this.#plan?.services.size ?? 0, failed }, 'ready');
  }

  #followAddresses(): void {
    this.#addresses = this.#parts.addresses.current();
    this.#isDue = true;
    if (this.#isSourceSynced) this.#schedule();
  }

  async #auditOnTimer(): Promise<void> {
    await this.audit().catch(() => undefined); // Noted where it fails.
  }
}

/** No stack trace of errors that tell the operator what to do. */
const fieldsOf = (error: unknown): { readonly reason: string } | { readonly err: unknown } =>
  error instanceof FairleadError ? { reason: error.message } : { err: error };
