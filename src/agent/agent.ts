// SPDX-License-Identifier: Apache-2.0
// The sync: changes from a source -> planner -> dataplane, as they come, coalesced only within one
// turn of the event loop. Nothing is written before the source's first complete lists. Work is a set
// of dirty Services, taken in bounded portions so that the event loop never stalls for long; what
// the kernel refused becomes dirty again after a growing pause.
// Holds the only mutable state of a running agent.

import type { BpfDataplane } from '../dataplane/bpf/dataplane.ts';
import type { LocalAddress } from '../dataplane/bpf/sync/node.ts';
import type { ApplyReport, FailedEntry } from '../dataplane/dataplane.ts';
import { createBackoff } from '../lib/backoff.ts';
import type { Logger } from '../log.ts';
import type { ObjectChange } from '../model/types.ts';
import type { Plan, PlanDelta, ServiceKey } from '../plan/types.ts';
import { createSyncLog, type SyncLog } from './sync-log.ts';

export interface AgentParts {
  readonly planner: { apply(changes: readonly ObjectChange[]): PlanDelta };
  readonly dataplane: BpfDataplane;
  readonly log: Logger;
  readonly localAddresses: () => readonly LocalAddress[];
  readonly auditIntervalMs: number;
  readonly addressIntervalMs: number;
  readonly onPlan?: (plan: Plan) => void;
  readonly onSync?: (facts: SyncFacts) => void;
}

/** One portion that was brought to the kernel. */
export interface SyncFacts {
  readonly plan: Plan;
  /** Those that were looked at; empty if the changes concern none. */
  readonly services: readonly ServiceKey[];
  readonly report: ApplyReport;
  /** Every Service was looked at. */
  readonly isFull: boolean;
  /** Nothing waits and nothing failed: the kernel has all that arrived. */
  readonly isComplete: boolean;
}

export interface AgentState {
  readonly plan: Plan | undefined;
  /** True once the first complete plan is in the kernel. */
  readonly isReady: boolean;
  readonly readyAt: Date | undefined;
  readonly syncs: number;
  readonly lastSync: { readonly at: Date; readonly report: ApplyReport } | undefined;
  /** What the kernel refuses at present, by entry id. */
  readonly failed: readonly FailedEntry[];
  /** Differences found and repaired by audits so far. */
  readonly driftTotal: number;
  readonly lastAuditAt: Date | undefined;
}

export interface Agent {
  accept(changes: readonly ObjectChange[]): void;
  /** The source has delivered complete lists: from now on the kernel follows. */
  sourceSynced(): void;
  /** Reads the kernel back and repairs it now. */
  audit(): readonly string[];
  state(): AgentState;
  /** Ends all timers; the kernel keeps what it has. */
  stop(): void;
}

/** Services handled in one turn: about 10 ms of work. */
const PORTION = 200;

export function createAgent(parts: AgentParts): Agent {
  return new RunningAgent(parts);
}

class RunningAgent implements Agent {
  readonly #parts: AgentParts;
  readonly #dirty = new Set<ServiceKey>();
  readonly #failed = new Map<ServiceKey, readonly FailedEntry[]>();
  readonly #backoff = createBackoff({ firstMs: 100, maxMs: 30_000, jitter: 'equal' }, Math.random);
  readonly #timers: NodeJS.Timeout[];
  readonly #syncLog: SyncLog;
  #nodeFailures: readonly FailedEntry[] = [];
  #pending: ObjectChange[] = [];
  #plan: Plan | undefined;
  #isSourceSynced = false;
  #isScheduled = false;
  #isStopped = false;
  #retryTimer: NodeJS.Timeout | undefined;
  #addresses = '';
  #readyAt: Date | undefined;
  #syncs = 0;
  #lastSync: AgentState['lastSync'];
  #driftTotal = 0;
  #lastAuditAt: Date | undefined;

  constructor(parts: AgentParts) {
    this.#parts = parts;
    this.#syncLog = createSyncLog(parts.log);
    this.#timers = [
      setInterval(() => this.#auditOnTimer(), parts.auditIntervalMs),
      setInterval(() => this.#followAddresses(), parts.addressIntervalMs),
    ];
  }

  accept(changes: readonly ObjectChange[]): void {
    for (const change of changes) this.#pending.push(change);
    this.#schedule();
  }

  sourceSynced(): void {
    if (this.#isSourceSynced) return;
    this.#isSourceSynced = true;
    this.#absorb();
    for (const key of this.#parts.dataplane.heldServices()) this.#dirty.add(key);
    for (const key of this.#plan?.services.keys() ?? []) this.#dirty.add(key);
    this.#schedule();
  }

  audit(): readonly string[] {
    const plan = this.#plan;
    if (plan === undefined || !this.#isSourceSynced) return [];
    const { drift, report } = this.#parts.dataplane.audit(plan);
    this.#lastAuditAt = new Date();
    this.#driftTotal += drift.length;
    if (drift.length > 0) {
      const { log } = this.#parts;
      log.warn(
        { differences: drift.length, first: drift.slice(0, 5) },
        'kernel differed from the plan, repaired',
      );
    }
    this.#note([...plan.services.keys()], report, true);
    return drift;
  }

  state(): AgentState {
    return {
      plan: this.#plan,
      isReady: this.#readyAt !== undefined,
      readyAt: this.#readyAt,
      syncs: this.#syncs,
      lastSync: this.#lastSync,
      failed: [...this.#nodeFailures, ...[...this.#failed.values()].flat()],
      driftTotal: this.#driftTotal,
      lastAuditAt: this.#lastAuditAt,
    };
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers) clearInterval(timer);
    clearTimeout(this.#retryTimer);
    this.#syncLog.close();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (!this.#isStopped) this.#turn();
    });
  }

  #turn(): void {
    const hasChanges = this.#pending.length > 0;
    this.#absorb();
    if (!this.#isSourceSynced) return;
    if (this.#dirty.size > 0) this.#sync();
    else if (hasChanges) this.#noteNothingToWrite();
    if (this.#dirty.size > 0) this.#schedule();
    else if (this.#readyAt === undefined) this.#becomeReady();
  }

  /** A taint of the Node, a slice of no Service: without this, health would wait for them for ever. */
  #noteNothingToWrite(): void {
    if (this.#plan === undefined) return;
    const report = { applied: 0, failed: [], elapsedMs: 0 };
    const isComplete = this.#failed.size === 0;
    this.#parts.onSync?.({ plan: this.#plan, services: [], report, isFull: false, isComplete });
  }

  /** Changes -> plan. Works also before the first complete lists: planning is not writing. */
  #absorb(): void {
    if (this.#pending.length === 0 && this.#plan !== undefined) return;
    const changes = this.#pending;
    this.#pending = [];
    const delta = this.#parts.planner.apply(changes);
    this.#plan = delta.plan;
    for (const key of delta.changed) this.#dirty.add(key);
    if (delta.isGlobal) {
      for (const key of delta.plan.services.keys()) this.#dirty.add(key);
      this.#addresses = '';
      if (this.#isSourceSynced) this.#followAddresses();
    }
    this.#parts.onPlan?.(delta.plan);
  }

  #sync(): void {
    const plan = this.#plan;
    if (plan === undefined) return;
    const portion: ServiceKey[] = [];
    for (const key of this.#dirty) {
      if (portion.length === PORTION) break;
      portion.push(key);
      this.#dirty.delete(key);
    }
    const report = this.#parts.dataplane.apply(plan, portion);
    this.#note(portion, report, this.#readyAt === undefined);
  }

  #note(services: readonly ServiceKey[], report: ApplyReport, isFull: boolean): void {
    const { log, dataplane } = this.#parts;
    this.#syncs++;
    this.#lastSync = { at: new Date(), report };
    for (const key of services) this.#failed.delete(key);
    for (const entry of report.failed) {
      const key = entry.service ?? '';
      const known = this.#failed.get(key) ?? [];
      this.#failed.set(key, [...known, entry]);
    }
    const { applied, failed, elapsedMs } = report;
    if (failed.length > 0) {
      const fields = { services: services.length, applied, failed: failed.length };
      log.warn({ ...fields, first: failed[0] }, 'sync incomplete, will retry');
    } else if (applied > 0) {
      this.#syncLog.done(services.length, applied, elapsedMs);
    }
    if (this.#failed.size > 0) this.#retryLater();
    else this.#backoff.reset();
    const isComplete =
      this.#dirty.size === 0 && this.#pending.length === 0 && this.#failed.size === 0;
    if (this.#plan !== undefined) {
      this.#parts.onSync?.({ plan: this.#plan, services, report, isFull, isComplete });
    }
    void dataplane.releaseRetired().then((isReleased) => this.#onReleased(isReleased));
  }

  #retryLater(): void {
    if (this.#retryTimer !== undefined || this.#isStopped) return;
    this.#retryTimer = setTimeout(() => this.#retryNow(), this.#backoff.nextMs());
  }

  #retryNow(): void {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    for (const key of this.#failed.keys()) this.#dirty.add(key);
    this.#schedule();
  }

  /** Room was made: Services that a full table refused are tried at once, once. */
  #onReleased(isReleased: boolean): void {
    if (!isReleased || this.#isStopped) return;
    if (this.#failed.size > 0 && this.#dirty.size === 0 && this.#backoff.attempts() <= 1)
      this.#retryNow();
  }

  #becomeReady(): void {
    const { dataplane, log } = this.#parts;
    this.#followAddresses();
    dataplane.dropStray();
    this.#readyAt = new Date();
    log.info({ services: this.#plan?.services.size ?? 0, failed: this.#failed.size }, 'ready');
  }

  #followAddresses(): void {
    if (this.#plan === undefined || !this.#isSourceSynced) return;
    const local = this.#parts.localAddresses();
    const text = local.map(({ address }) => address).join();
    if (text === this.#addresses && this.#nodeFailures.length === 0) return;
    this.#addresses = text;
    this.#nodeFailures = this.#parts.dataplane.applyNode(this.#plan, local);
  }

  #auditOnTimer(): void {
    try {
      this.audit();
    } catch (error) {
      this.#parts.log.error({ err: error }, 'audit failed, will run again');
    }
  }
}
