// SPDX-License-Identifier: Apache-2.0
// Rules of netfilter as a dataplane, whichever engine writes them: what differs is written, not more often than the minimum
// sync period allows, and now and then it is looked whether somebody else has changed it. A transaction that fails is told
// to the caller, who retries.
import { FairleadError } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../log.ts';
import type { Plan, ServiceKey } from '../../plan/types.ts';
import type { Capabilities } from '../capabilities.ts';
import type {
  AuditReport,
  Dataplane,
  FailedEntry,
  HeldFrontend,
  SyncReport,
} from '../dataplane.ts';
import { createTurns } from '../router/turns.ts';
import type { Counters, Installation, Snapshot } from '../snapshot.ts';
import type { Extent, Outcome } from './writer.ts';

/** What differs between engines that write rules: how they read them, and how they write. */
export interface RulesParts extends Readings {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  /**
   * Throws if it is not known whose rule is refused, or many are.
   * @param isUntouched nobody else has changed rules since they were written: what is there is known without reading
   */
  write(plan: Plan, extent: Extent, isUntouched: boolean): Promise<Outcome>;
  /** That were committed since the start: each is one step of the kernel's generation. */
  transactions(): number;
  /** False if somebody has changed rules since they were written. Reads all of them. */
  isAsWritten(): Promise<boolean>;
  /** False if somebody has removed them since they were written. Cheap. */
  isThere(): Promise<boolean>;
  /** Called when everything is written: what an earlier agent has left is removed. @returns what is not */
  removeOthers?(isFull: boolean): Promise<readonly FailedEntry[]>;
  readonly clock: Clock;
  readonly pause: (clock: Clock, durationMs: number, signal: AbortSignal) => Promise<void>;
  /** From the end of a sync that has written to the start of the next. */
  readonly minSyncPeriodMs: number;
  /** How often it is looked whether the rules are there. */
  readonly syncPeriodMs: number;
  /** One more with each transaction that changes rules, whoever commits it; undefined: not known. Cheap. */
  readonly generation: () => number | undefined;
  readonly close: () => void;
  readonly log: Pick<Logger, 'warn'>;
}

/** Of what the kernel has. */
interface Readings {
  held(): Promise<readonly HeldFrontend[]>;
  heldDatagrams(): Promise<readonly HeldFrontend[]>;
  snapshot(): Promise<Snapshot>;
}

/** Between two times that all rules are read, in times of how long that took. */
const READ_PAUSE = 20;

export const createRulesDataplane = (parts: RulesParts): Dataplane => new RulesDataplane(parts);

class RulesDataplane implements Dataplane {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  readonly #parts: RulesParts;
  readonly #turns = createTurns();
  readonly #closing = new AbortController();
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  /** Something is written: there are rules to be missed. */
  #isWritten = false;
  /** Of the kernel when the rules were as they should be. */
  #generation: number | undefined;
  #noReadBeforeMs = Number.NEGATIVE_INFINITY;
  #cancelLook: () => void = () => undefined;
  #tellLoss = (): void => undefined;

  constructor(parts: RulesParts) {
    this.#parts = parts;
    this.capabilities = parts.capabilities;
    this.installation = parts.installation;
    this.#lookLater();
  }

  sync(plan: Plan, changed: Iterable<ServiceKey> | 'all'): Promise<SyncReport> {
    return this.#turn(async () => {
      await this.untilDue();
      this.#throwIfClosed();
      return (await this.#write(plan, changed)).report;
    });
  }

  untilDue(): Promise<void> {
    const { clock, pause } = this.#parts;
    return pause(clock, this.#notBeforeMs - clock.monotonicMs(), this.#closing.signal);
  }

  audit(plan: Plan): Promise<AuditReport> {
    return this.#turn(() => this.#write(plan, 'audit'));
  }

  async held(): Promise<Iterable<HeldFrontend>> {
    this.#throwIfClosed();
    return this.#parts.held();
  }

  heldDatagrams(): Promise<Iterable<HeldFrontend>> {
    return this.#turn(() => this.#parts.heldDatagrams());
  }

  async snapshot(): Promise<Snapshot> {
    this.#throwIfClosed();
    return this.#parts.snapshot();
  }

  counters(): Counters {
    return { tables: [], outcomes: {}, connections: [] };
  }

  onRoom(): void {
    // Chains have no capacity.
  }

  onLoss(listener: () => void): void {
    this.#tellLoss = listener;
  }

  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    this.#cancelLook();
    this.#parts.close();
  }

  /** In the order of the calls, and none after close(). */
  #turn<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns(async () => {
      this.#throwIfClosed();
      return work();
    });
  }

  #throwIfClosed(): void {
    if (this.#closing.signal.aborted) throw new Error('the dataplane is closed');
  }

  async #write(plan: Plan, extent: Extent): Promise<AuditReport> {
    const { clock, minSyncPeriodMs } = this.#parts;
    const startedMs = clock.monotonicMs();
    const isFull = typeof extent === 'string';
    const before = this.#parts.generation();
    const isUntouched = before !== undefined && before === this.#generation;
    const expected = this.#generationAfterWriting(before, isFull || isUntouched);
    const { written, failed } = await this.#parts.write(plan, extent, isUntouched).finally(() => {
      this.#generation = undefined;
      this.#notBeforeMs = clock.monotonicMs() + minSyncPeriodMs;
    });
    this.#isWritten = true;
    this.#generation = expected();
    const applied = written.reduce((sum, { changes }) => sum + changes, 0);
    if (applied === 0) this.#notBeforeMs = Number.NEGATIVE_INFINITY;
    const left = (await this.#parts.removeOthers?.(isFull)) ?? [];
    const elapsedMs = clock.monotonicMs() - startedMs;
    return {
      drift: written.flatMap(({ drift }) => drift),
      report: { applied, failed: [...failed, ...left], elapsedMs },
    };
  }

  /**
   * The kernel's generation, if nobody but this agent has written rules meanwhile; undefined: all rules are to be read.
   * @param isKnown at the generation before, nobody else had, or they are read before they are written
   */
  #generationAfterWriting(before: number | undefined, isKnown: boolean): () => number | undefined {
    const { generation, transactions: ours } = this.#parts;
    const oursBefore = ours();
    return () => {
      const now = generation();
      const isOurs = before !== undefined && now === before + ours() - oursBefore;
      return isKnown && isOurs ? now : undefined;
    };
  }

  #lookLater(): void {
    this.#cancelLook = this.#parts.clock.after(this.#parts.syncPeriodMs, () => {
      void this.#look().finally(() => this.#closing.signal.aborted || this.#lookLater());
    });
  }

  /** Takes at most a twentieth of the time. */
  async #isAsWritten(): Promise<boolean> {
    const { clock } = this.#parts;
    const startedMs = clock.monotonicMs();
    const isFine = await this.#parts.isAsWritten();
    const endedMs = clock.monotonicMs();
    this.#noReadBeforeMs = endedMs + READ_PAUSE * (endedMs - startedMs);
    return isFine;
  }

  /** Somebody may have changed the rules: then an audit writes them again. */
  async #look(): Promise<void> {
    try {
      const isThere = await this.#turn(async () => {
        const generation = this.#parts.generation();
        const isSame = generation !== undefined && generation === this.#generation;
        if (!this.#isWritten || isSame) return true;
        // In between a flush is noticed.
        const isRead = this.#parts.clock.monotonicMs() >= this.#noReadBeforeMs;
        const isFine = await (isRead ? this.#isAsWritten() : this.#parts.isThere());
        if (isRead && isFine) this.#generation = generation;
        return isFine;
      });
      if (!isThere) this.#tellLoss();
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const reason = error instanceof FairleadError ? error.message : String(error);
      this.#parts.log.warn({ reason }, 'cannot tell whether the rules are there');
    }
  }
}
