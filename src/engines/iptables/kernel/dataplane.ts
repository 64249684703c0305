// SPDX-License-Identifier: Apache-2.0
// The rules of iptables as a dataplane: renders the plan, which costs little for Services that did not change, and writes
// the chains that differ, each family in one iptables-restore, not more often than the minimum sync period allows. A failed one
// changes no table in part, and is told to the caller, who retries.
import { FairleadError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import type { Family } from '../../../model/types.ts';
import type { Plan } from '../../../plan/types.ts';
import { pause } from '../../../sys/clock.ts';
import type { Capabilities } from '../../capabilities.ts';
import type { AuditReport, Changed, Dataplane, HeldFrontend, SyncReport } from '../../dataplane.ts';
import type { Entry } from '../../entry.ts';
import { allOf } from '../../router/merge.ts';
import { createTurns } from '../../router/turns.ts';
import type { Counters, Installation, Snapshot } from '../../snapshot.ts';
import { datagramFrontends } from '../state/inspect/datagrams.ts';
import { heldFrontends, snapshotOf } from '../state/inspect/view.ts';
import type { OtherVariant } from './other-variant.ts';
import {
  createWriter,
  type Extent,
  type Writer,
  type WriterParts,
  type Written,
} from './writer.ts';

export interface IptablesParts extends WriterParts {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  readonly clock: Clock;
  /** From the end of a sync that has written to the start of the next. */
  readonly minSyncPeriodMs: number;
  /** How often it is looked whether the rules are there. */
  readonly syncPeriodMs: number;
  /** One more with each transaction that changes rules, whoever commits it; undefined: not known. Cheap. */
  readonly generation: () => number | undefined;
  readonly otherVariant: OtherVariant;
  readonly close: () => void;
  readonly log: Pick<Logger, 'warn'>;
}

/** Between two times that all rules are read, in times of how long that took. */
const READ_PAUSE = 20;

export const createIptablesDataplane = (parts: IptablesParts): Dataplane =>
  new IptablesDataplane(parts);

class IptablesDataplane implements Dataplane {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  readonly #parts: IptablesParts;
  readonly #writer: Writer;
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

  constructor(parts: IptablesParts) {
    this.#parts = parts;
    this.capabilities = parts.capabilities;
    this.installation = parts.installation;
    this.#writer = createWriter(parts);
    this.#lookLater();
  }

  sync(plan: Plan, changed: Changed): Promise<SyncReport> {
    return this.#turn(async () => {
      await pause(
        this.#parts.clock,
        this.#notBeforeMs - this.#parts.clock.monotonicMs(),
        this.#closing.signal,
      );
      this.#throwIfClosed();
      return (await this.#write(plan, changed)).report;
    });
  }

  audit(plan: Plan): Promise<AuditReport> {
    return this.#turn(() => this.#write(plan, 'audit'));
  }

  async held(): Promise<Iterable<HeldFrontend>> {
    const saved = await this.#saved();
    return saved.flatMap(([family, text]) => [...heldFrontends(family, text)]);
  }

  async heldDatagrams(): Promise<Iterable<HeldFrontend>> {
    const saved = await this.#turn(() => this.#saved());
    return saved.flatMap(([family, text]) => datagramFrontends(family, text));
  }

  async snapshot(): Promise<Snapshot> {
    const saved = await this.#saved();
    const snapshots = saved.map(([family, text]) => snapshotOf(family, text));
    return {
      frontends: snapshots.flatMap(({ frontends }) => frontends),
      backends: snapshots.flatMap(({ backends }) => backends),
    };
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
    const expected = this.#generationAfterWriting(isFull);
    const { written, failed } = await this.#writer.write(plan, extent).finally(() => {
      this.#generation = undefined;
      this.#notBeforeMs = clock.monotonicMs() + minSyncPeriodMs;
    });
    this.#isWritten = true;
    this.#generation = expected();
    const applied = written.reduce((sum, { changes }) => sum + changes, 0);
    if (applied === 0) this.#notBeforeMs = Number.NEGATIVE_INFINITY;
    const left = await this.#parts.otherVariant.remove(isFull);
    const elapsedMs = clock.monotonicMs() - startedMs;
    return {
      drift: driftOf(written),
      report: { applied, failed: [...failed, ...left], elapsedMs },
    };
  }

  /**
   * The kernel's generation, if nobody but this agent has written rules meanwhile; undefined: all rules are to be read.
   * @param isFull they are read before they are written
   */
  #generationAfterWriting(isFull: boolean): () => number | undefined {
    const { generation, families } = this.#parts;
    const ours = (): number =>
      [...families.values()].reduce((sum, rules) => sum + rules.transactions(), 0);
    const [before, oursBefore] = [generation(), ours()];
    const isKnown = before !== undefined && (isFull || before === this.#generation);
    return () => {
      const now = generation();
      return isKnown && now === before + ours() - oursBefore ? now : undefined;
    };
  }

  #saved(): Promise<readonly (readonly [Family, string])[]> {
    this.#throwIfClosed();
    return allOf([...this.#parts.families], async ([family, rules]) => [
      family,
      await rules.save(),
    ]);
  }

  #lookLater(): void {
    this.#cancelLook = this.#parts.clock.after(this.#parts.syncPeriodMs, () => {
      void this.#look().finally(() => this.#closing.signal.aborted || this.#lookLater());
    });
  }

  /** Takes at most a twentieth of the time. */
  async #isAsWritten(): Promise<boolean> {
    const { clock, families } = this.#parts;
    const startedMs = clock.monotonicMs();
    const found = await allOf([...families.values()], (rules) => rules.isAsWritten());
    const endedMs = clock.monotonicMs();
    this.#noReadBeforeMs = endedMs + READ_PAUSE * (endedMs - startedMs);
    return found.every((one) => one);
  }

  /** In between a flush is noticed. */
  async #isThere(): Promise<boolean> {
    const { families } = this.#parts;
    const found = await allOf([...families.values()], (rules) => rules.isThere());
    return found.every((one) => one);
  }

  /** Somebody may have changed the rules: then an audit writes them again. */
  async #look(): Promise<void> {
    try {
      const isThere = await this.#turn(async () => {
        const generation = this.#parts.generation();
        const isSame = generation !== undefined && generation === this.#generation;
        if (!this.#isWritten || isSame) return true;
        const isRead = this.#parts.clock.monotonicMs() >= this.#noReadBeforeMs;
        const isFine = await (isRead ? this.#isAsWritten() : this.#isThere());
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

const driftOf = (written: readonly Written[]): readonly Entry[] =>
  written.flatMap(({ family, drift }) =>
    drift.map(
      ({ table, chain, text }): Entry => ({
        id: { kind: 'chain', family, table, chain },
        text: `${family} ${text}`,
      }),
    ),
  );
