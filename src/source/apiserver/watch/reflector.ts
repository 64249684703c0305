// SPDX-License-Identifier: Apache-2.0
// Keeps one kind followed: attempt after attempt until stopped, with the pause that each end asks for.
// What is lost is only ever news: nothing here takes an object away because a server did not answer.

import { type Backoff, createBackoff } from '../../../lib/backoff.ts';
import type { Logger } from '../../../log.ts';
import { pause } from '../../../sys/clock.ts';
import { type Counters, createCounters } from '../counters.ts';
import { LIMITS } from '../limits.ts';
import type { Suspicion } from './store.ts';
import { WatchError } from './watch-error.ts';
import { WatchFollower, type WatchFollowerParts } from './watch-follower.ts';

export interface ReflectorParts extends Omit<WatchFollowerParts, 'counters'> {
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>;
  /** Once: the first complete list was delivered. */
  readonly onSynced: () => void;
  readonly onSuspicion: (suspicion: Suspicion) => void;
  /** Time over which all nodes of the cluster spread what they ask at once. */
  readonly spreadMs: () => number;
  /** The problem of this kind has appeared, changed or gone. */
  readonly onProblem: () => void;
}

/** `absent`: an optional kind that this server does not have, or does not show us. */
export type ReflectorState =
  | 'stopped'
  | 'listing'
  | 'connecting'
  | 'watching'
  | 'waiting'
  | 'absent';

export interface ReflectorStatus {
  readonly state: ReflectorState;
  readonly isSynced: boolean;
  readonly objects: number;
  /** Removals held back until a second list confirms them. */
  readonly heldRemovals: number;
  readonly resourceVersion: string;
  readonly isWatchListUsed: boolean;
  /** Since anything was heard on this watch; undefined = never. */
  readonly aliveAgeMs: number | undefined;
  readonly listAgeMs: number | undefined;
  readonly bookmarkAgeMs: number | undefined;
  readonly problem: string | undefined;
}

/** One failure is a reconnect; two in a row are a problem. */
const FAILURES_OF_A_PROBLEM = 2;

export class Reflector {
  readonly counters: Counters = createCounters();
  readonly #parts: ReflectorParts;
  readonly #follower: WatchFollower;
  /** While nothing answers. */
  readonly #unreachable: Backoff;
  /** While what answers is no help: the length of the outage before it does not count. */
  readonly #refused: Backoff;
  #isWanted = false;
  #isSynced = false;
  #loop: Promise<void> | undefined;
  #attempt: Promise<WatchError> | undefined;
  #request = new AbortController();
  #stopping = new AbortController();
  #state: ReflectorState = 'stopped';
  #openedAtMs: number | undefined;
  #aliveAtMs: number | undefined;
  #listedAtMs: number | undefined;
  #failures = 0;
  /** A 410 has asked for a list, and none was complete since. */
  #isListDue = false;
  #isToldToWait = false;
  /** Since a watch last worked. */
  #resumes = 0;
  #resumableAtMs = 0;
  #problem: string | undefined;
  #cancels: (() => void)[] = [];

  constructor(parts: ReflectorParts) {
    this.#parts = parts;
    this.#unreachable = createBackoff(LIMITS.backoff, parts.clock.random);
    this.#refused = createBackoff(LIMITS.backoff, parts.clock.random);
    this.#follower = new WatchFollower(
      { ...parts, counters: this.counters },
      {
        onListed: () => this.#onListed(),
        onSuspicion: (suspicion) => {
          this.#isListDue = false;
          parts.onSuspicion(suspicion);
        },
        onOpen: () => this.#onOpen(),
        onAlive: () => this.#onAlive(),
      },
    );
  }

  /** Idempotent; also right after stop(): the old loop then goes on. */
  start(): void {
    this.#isWanted = true;
    this.#loop ??= this.#run().finally(() => {
      this.#loop = undefined;
      this.#state = 'stopped';
      if (this.#isWanted) this.start();
    });
  }

  /** Resolves when no request is left. What was delivered stays delivered. Idempotent. */
  async stop(): Promise<void> {
    this.#isWanted = false;
    this.#request.abort(new WatchError('stopped', 'stopped'));
    this.#stopping.abort();
    const loop = this.#loop;
    await this.#attempt;
    // A start() in between has taken the loop over: it does not end.
    if (!this.#isWanted) await loop;
  }

  /** Another cluster answers: lists again at once. See WatchFollower. */
  forceRelist(): void {
    this.#follower.forceRelist();
    this.#request.abort(new WatchError('replaced', 'another cluster answers'));
    this.#stopping.abort();
  }

  /** A list beside the watch shows something else: ends it as one that has lost its order, with the pause of those. */
  relist(): void {
    this.#request.abort(new WatchError('disorder', 'a list beside the watch shows something else'));
  }

  /**
   * The server answers again: a pause that has grown while it did not ends now, unless the server asked for
   * it. Ever more rarely until a watch works: a server that answers one question and breaks every watch
   * must not be asked without pause.
   */
  resume(): void {
    const nowMs = this.#parts.clock.monotonicMs();
    if (this.#state !== 'waiting' || this.#isToldToWait || nowMs < this.#resumableAtMs) return;
    this.#resumes += 1;
    this.#resumableAtMs =
      nowMs + Math.min(LIMITS.backoff.maxMs, LIMITS.probeMs * 2 ** this.#resumes);
    this.#forgetFailures();
    this.#stopping.abort();
  }

  status(): ReflectorStatus {
    const { store, bookmarkAtMs, canWatchList } = this.#follower;
    return {
      state: this.#state,
      isSynced: this.#isSynced,
      objects: store.size,
      heldRemovals: store.held,
      resourceVersion: store.version,
      isWatchListUsed: canWatchList,
      aliveAgeMs: this.#age(this.#aliveAtMs),
      listAgeMs: this.#age(this.#listedAtMs),
      bookmarkAgeMs: this.#age(bookmarkAtMs),
      problem: this.#problem,
    };
  }

  #age(atMs: number | undefined): number | undefined {
    return atMs === undefined ? undefined : this.#parts.clock.monotonicMs() - atMs;
  }

  async #run(): Promise<void> {
    while (this.#isWanted) {
      this.#request = new AbortController();
      this.#isToldToWait = false;
      this.#stopping = new AbortController();
      this.#openedAtMs = undefined;
      this.#state = this.#follower.needsList ? 'listing' : 'connecting';
      this.#attempt = this.#follower.attempt(this.#request);
      const ended = await this.#attempt;
      for (const cancel of this.#cancels.splice(0)) cancel();
      this.counters.ends[ended.reason] += 1;
      if (!this.#isWanted) continue;
      const waitMs = this.#pauseAfter(ended);
      const { kind } = this.#parts.spec;
      this.#parts.log.debug(
        { kind, reason: ended.reason, why: ended.message, waitMs },
        'watch ended',
      );
      await pause(this.#parts.clock, waitMs, this.#stopping.signal);
    }
  }

  #pauseAfter(ended: WatchError): number {
    const { reason, retryAfterMs } = ended;
    if (['unsupported', 'late', 'confirm', 'replaced', 'stopped'].includes(reason)) return 0;
    // A server that has started anew knows no history: it says 410 to all kinds of all nodes, and is well.
    if (reason === 'expired' && !this.#isListDue) {
      this.#isListDue = true;
      this.#state = 'listing';
      return this.#parts.spreadMs() * this.#parts.clock.random();
    }
    const livedMs = this.#age(this.#openedAtMs) ?? 0;
    const isOrderly = reason === 'closed' || reason === 'silent';
    if (isOrderly && livedMs >= LIMITS.shortLifeMs) return 0;
    if (this.#parts.spec.isOptional && this.#isAbsence(ended)) {
      this.#state = 'absent';
      this.#clearProblem();
      return LIMITS.absentRetryMs;
    }
    this.#state = 'waiting';
    this.#failures += 1;
    if (this.#failures >= FAILURES_OF_A_PROBLEM) this.#setProblem(ended.message);
    this.#isToldToWait = retryAfterMs > 0;
    const backoff = reason === 'broken' ? this.#unreachable : this.#refused;
    return backoff.nextMs(Math.min(retryAfterMs, LIMITS.retryAfterMaxMs));
  }

  /** A server that has just started says 403 before it knows its roles: what was shown will be again. */
  #isAbsence({ status }: WatchError): boolean {
    return status === 404 || (status === 403 && !this.#isSynced);
  }

  #onListed(): void {
    this.#isListDue = false;
    this.#listedAtMs = this.#parts.clock.monotonicMs();
    this.#aliveAtMs = this.#listedAtMs;
    if (this.#isSynced || !this.#isWanted) return;
    this.#isSynced = true;
    this.#parts.onSynced();
  }

  #onOpen(): void {
    const { clock } = this.#parts;
    this.#openedAtMs = clock.monotonicMs();
    this.#aliveAtMs = this.#openedAtMs;
    this.#state = this.#follower.needsList ? 'listing' : 'watching';
    this.#cancels.push(
      clock.after(LIMITS.shortLifeMs, () => this.#clearProblem()),
      clock.after(LIMITS.healthyMs, () => this.#forgetFailures()),
    );
  }

  #onAlive(): void {
    this.#state = 'watching';
    this.#aliveAtMs = this.#parts.clock.monotonicMs();
    this.#forgetFailures();
    this.#clearProblem();
  }

  #forgetFailures(): void {
    this.#unreachable.reset();
    this.#refused.reset();
  }

  #clearProblem(): void {
    this.#failures = 0;
    this.#resumes = 0;
    this.#setProblem(undefined);
  }

  #setProblem(problem: string | undefined): void {
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.#parts.onProblem();
  }
}
