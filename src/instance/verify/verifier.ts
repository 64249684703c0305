// SPDX-License-Identifier: Apache-2.0
// Proves, when it is asked, that the kernel has what the API says. A reading is an independent list, planned, beside the maps or
// rules as they are. What two readings find alike is told and repaired, and read once more: what differs from the agent's plan
// by an audit, and a plan that is wrong by new lists of its watches.
import { FairleadError, reasonOf } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../log.ts';
import { type VerifyView, verifyText } from '../../observe/verify-view.ts';
import type { Plan, ServiceKey } from '../../plan/types.ts';
import type { Differences } from '../../verify/differences.ts';
import { Proofs } from '../../verify/proofs.ts';

export interface VerifierParts {
  readonly against: VerifyView['against'];
  /** Lists, plans, reads the kernel and compares; undefined: there is nothing to be proven yet. */
  readonly read: () => Promise<Reading | undefined>;
  /** Writes what differs from the agent's plan. */
  readonly repair: () => Promise<void>;
  /** The watches list anew, as after any watch that cannot be trusted; undefined: there are none. */
  readonly relist: (() => void) | undefined;
  /** Of this process so far. */
  readonly cpuMs: () => number;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export interface Reading {
  readonly plan: Plan;
  readonly found: Differences;
  /** Those of them that the agent has planned: its objects are wrong, or late. */
  readonly misplanned: ReadonlySet<ServiceKey>;
}

/** What is being written is written after this time. */
const CONFIRM_MS = 2_000;
/** Of what two readings find, this many are named in the log. */
const LOGGED = 5;

export class Verifier {
  readonly #parts: VerifierParts;
  readonly #proofs = new Proofs();
  #last: Pick<VerifyView, 'verifiedAt' | 'durationMs' | 'cpuMs'> = {};
  #services = 0;
  readonly #counts = { found: 0, repaired: 0, relisted: 0 };
  #misplanned: Reading['misplanned'] = new Set();
  #problem: string | undefined;
  #told: string | undefined;
  #running: Promise<void> | undefined;
  #isClosed = false;
  /** Of a pause within a proof. */
  #cancelWait: () => void = () => undefined;

  constructor(parts: VerifierParts) {
    this.#parts = parts;
  }

  /** One proof, with the second reading and the repair that it may need; its counts are of this one. Never rejects. */
  async now(): Promise<VerifyView> {
    const before = { ...this.#counts };
    await this.#once();
    const { found, repaired, relisted } = this.#counts;
    return {
      ...this.view(),
      found: found - before.found,
      repaired: repaired - before.repaired,
      relisted: relisted - before.relisted,
    };
  }

  view(): VerifyView {
    const { clock, against } = this.#parts;
    const oldestMs = this.#proofs.oldestMs();
    return {
      ...this.#last,
      ...{ against, services: this.#services, ...this.#counts },
      ...(oldestMs !== undefined && { oldestSeconds: (clock.monotonicMs() - oldestMs) / 1000 }),
      unproven: this.#proofs.unproven(),
      differing: [...this.#proofs.confirmed]
        .map(([service, what]) => ({ service, what }))
        .toSorted((a, b) => (a.service < b.service ? -1 : 1)),
      ...(this.#problem !== undefined && { problem: this.#problem }),
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelWait();
  }

  #once(): Promise<void> {
    this.#running ??= this.#verify().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #verify(): Promise<void> {
    const found = await this.#read();
    if (found === undefined || found.size === 0) return;
    await this.#wait(CONFIRM_MS);
    await this.#read();
    const { confirmed } = this.#proofs;
    if (confirmed.size === 0 || this.#isClosed) return;
    await this.#repair(confirmed);
  }

  async #repair(confirmed: Differences): Promise<void> {
    const { repair, relist, log } = this.#parts;
    const misplanned = [...confirmed.keys()].filter((service) => this.#misplanned.has(service));
    this.#counts.found += confirmed.size;
    this.#tell(confirmed);
    try {
      if (misplanned.length < confirmed.size) await repair();
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, 'what differs cannot be repaired, will retry');
    }
    if (this.#isClosed) return;
    if (misplanned.length > 0 && relist !== undefined) {
      this.#counts.relisted += misplanned.length;
      const services = misplanned.slice(0, LOGGED);
      log.warn({ services }, 'verify: the plan is not what the API server says, listing anew');
      relist();
      await this.#wait(CONFIRM_MS);
    }
    const left = await this.#read();
    if (left === undefined) return;
    const repaired = [...confirmed.keys()].filter((service) => !left.has(service)).length;
    this.#counts.repaired += repaired;
    if (repaired > 0) log.info({ services: repaired }, 'verify: repaired, and proven equal');
  }

  /** Differences of one reading; undefined: nothing could be read. */
  async #read(): Promise<Differences | undefined> {
    const { clock, read, cpuMs, log } = this.#parts;
    const [startedMs, cpuBeforeMs] = [clock.monotonicMs(), cpuMs()];
    let problem: string | undefined;
    let found: Differences | undefined;
    try {
      const reading = await read();
      if (reading === undefined || this.#isClosed) return undefined;
      found = reading.found;
      this.#misplanned = reading.misplanned;
      this.#services = reading.plan.services.size;
      this.#proofs.judge(reading.plan.services.keys(), found, startedMs);
    } catch (error) {
      if (this.#isClosed) return undefined;
      problem = error instanceof FairleadError ? error.message : reasonOf(error);
    }
    if (problem !== undefined && problem !== this.#problem)
      log.warn({ reason: problem }, 'verify: nothing is proven');
    this.#problem = problem;
    this.#last = {
      ...this.#last,
      ...(problem === undefined && { verifiedAt: new Date(clock.nowMs()).toISOString() }),
      durationMs: clock.monotonicMs() - startedMs,
      cpuMs: cpuMs() - cpuBeforeMs,
    };
    return found;
  }

  /** Only what is new. */
  #tell(confirmed: Differences): void {
    const told = [...confirmed].map((entry) => entry.join(' ')).join('\n');
    if (told === this.#told) return;
    this.#told = told;
    const { differing } = this.view();
    const text = verifyText(this.view());
    this.#parts.log.warn({ differing: differing.slice(0, LOGGED) }, `verify: ${text}`);
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#cancelWait = this.#parts.clock.after(delayMs, resolve);
    });
  }
}
