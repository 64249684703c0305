// SPDX-License-Identifier: Apache-2.0
// The work of an agent with --shadow: after each change of the plan or of the rules, the two are compared. It happens in this
// process, in slices of ten milliseconds (but what was listed is read in one): the plan is here, and nobody waits for an agent
// that serves nothing.
import { reasonOf } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../log.ts';
import { type Differing, type ShadowView, shadowText } from '../../observe/shadow-view.ts';
import { inSlices } from '../../sys/clock.ts';
import { chosenOf, comparedInSteps, familiesOf, type Plans } from './comparing.ts';
import { type Judged, judge } from './judged.ts';
import { Pace } from './pace.ts';
import type { FoundRules } from './read-rules.ts';

export interface ShadowParts {
  /** How long the other proxy may take to write a change. */
  readonly waitMs: number;
  /** undefined: there is no complete plan yet. */
  readonly plans: () => Plans | undefined;
  /** Of this node, without those of the loopback device. */
  readonly addresses: () => readonly string[];
  readonly readRules: () => Promise<readonly FoundRules[]>;
  /** Another one says that rules may have changed. */
  readonly rulesVersion: () => Promise<string>;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** After each comparison, and at each look at the rules. */
  readonly onView: (view: ShadowView) => void;
  /** What two readings have found that keeps an agent from serving; none: nothing does. */
  readonly onProven: (barring: readonly Differing[]) => void;
}

const SLICE_MS = 10;
/** How often it is looked whether rules have changed: as often, or three times the time that a change takes. */
const LOOK_MS = 30_000;
const LOOK_WAITS = 3;

const NOTHING: Judged = {
  ...{ differences: {}, differing: [], barring: [], unread: [], isOpen: false },
  keys: new Set(),
};

export class Shadow {
  readonly #parts: ShadowParts;
  readonly #pace: Pace;
  readonly #lookMs: number;
  #judged = NOTHING;
  #last: Pick<ShadowView, 'comparedAt' | 'durationMs'> = {};
  #rules: readonly string[] = [];
  #services = 0;
  #problem: string | undefined;
  #version: string | undefined;
  #told: string | undefined;
  #isComparing = false;
  #isClosed = false;
  #cancelDue: () => void = () => undefined;
  #cancelLook: () => void;

  constructor(parts: ShadowParts) {
    this.#parts = parts;
    this.#pace = new Pace(parts.waitMs);
    this.#lookMs = Math.min(LOOK_MS, LOOK_WAITS * parts.waitMs);
    this.#cancelLook = parts.clock.after(this.#lookMs, () => void this.#look());
  }

  /** The plan is another one. */
  planned(): void {
    this.#changed();
  }

  view(): ShadowView {
    const { differences, differing, unread, isOpen } = this.#judged;
    return {
      ...this.#last,
      ...{ rules: this.#rules, services: this.#services, differences, differing, unread, isOpen },
      isDue: this.#isComparing || this.#pace.dueMs() !== undefined,
      ...(this.#problem !== undefined && { problem: this.#problem }),
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelDue();
    this.#cancelLook();
  }

  #changed(): void {
    this.#pace.changed(this.#parts.clock.monotonicMs());
    this.#wait();
  }

  #wait(): void {
    this.#cancelDue();
    const dueMs = this.#pace.dueMs();
    if (dueMs === undefined || this.#isComparing || this.#isClosed) return;
    const { clock } = this.#parts;
    const delayMs = Math.max(0, dueMs - clock.monotonicMs());
    this.#cancelDue = clock.after(delayMs, () => void this.#compare());
  }

  /** Whether the rules have changed since they were read. */
  async #look(): Promise<void> {
    const { rulesVersion, clock, onView } = this.#parts;
    const version = await rulesVersion().catch(() => undefined);
    if (this.#isClosed) return;
    this.#cancelLook = clock.after(this.#lookMs, () => void this.#look());
    const isOther = version !== this.#version || this.#problem !== undefined;
    if (isOther && !this.#isComparing && this.#pace.dueMs() === undefined) this.#changed();
    onView(this.view());
  }

  async #compare(): Promise<void> {
    const { clock, onView } = this.#parts;
    this.#isComparing = true;
    this.#pace.begun();
    const startedMs = clock.monotonicMs();
    let isCompared = false;
    try {
      isCompared = await this.#read();
    } catch (error) {
      this.#problem = `the rules of this node cannot be compared: ${reasonOf(error)}`;
    }
    this.#isComparing = false;
    if (this.#isClosed) return;
    const nowMs = clock.monotonicMs();
    this.#pace.ended(nowMs, nowMs - startedMs);
    if (isCompared) {
      this.#last = {
        comparedAt: new Date(clock.nowMs()).toISOString(),
        durationMs: nowMs - startedMs,
      };
      if (this.#judged.isOpen) this.#pace.changed(nowMs);
      else this.#parts.onProven(this.#judged.barring);
    }
    this.#wait();
    const view = this.view();
    this.#tell(view);
    onView(view);
  }

  /** @returns whether the plan has been compared */
  async #read(): Promise<boolean> {
    const { plans, addresses, readRules, rulesVersion } = this.#parts;
    const version = await rulesVersion();
    const found = await readRules();
    const planned = plans();
    if (this.#isClosed || planned === undefined) return false;
    const chosen = chosenOf(found, familiesOf(planned.plan));
    this.#version = version;
    this.#problem = 'problem' in chosen ? chosen.problem : undefined;
    if ('problem' in chosen) {
      this.#judged = NOTHING;
      return false;
    }
    const steps = comparedInSteps(chosen.rules, planned, addresses());
    const compared = await inSlices(steps, SLICE_MS, () => this.#isClosed);
    if (compared === undefined) return false;
    this.#judged = judge(compared, this.#judged.keys);
    this.#rules = chosen.rules.map(({ family, name }) => `${family} ${name}`);
    this.#services = planned.plan.services.size;
    return true;
  }

  /** Only what is new. */
  #tell(view: ShadowView): void {
    const { log } = this.#parts;
    const { differing, problem, comparedAt } = view;
    if (problem === undefined && comparedAt === undefined) return;
    const told = problem ?? differing.map(({ service, what }) => `${service} ${what}`).join('\n');
    if (told === this.#told || (this.#judged.isOpen && problem === undefined)) return;
    this.#told = told;
    const level = problem === undefined && differing.length === 0 ? 'info' : 'warn';
    log[level]({ differing: differing.slice(0, 5) }, `shadow: ${shadowText(view)}`);
  }
}
