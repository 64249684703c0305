// SPDX-License-Identifier: Apache-2.0
// One attempt to follow a kind: complete list if one is needed, then a watch until it ends. Remembers
// between attempts what must be asked next. When to try again is the reflector's affair.
import type { ObjectChange } from '../../../model/types.ts';
import type { BodyParts, IdleTimeout } from '../decode/body.ts';
import type { Intern } from '../decode/intern.ts';
import { createDecoder, type Decoder, type WatchEvent } from '../decode/watch-events.ts';
import type { KindSpec } from '../kinds.ts';
import { LIMITS } from '../limits.ts';
import type { ClusterIdentity } from '../transport/identity.ts';
import type { Delivery } from './delivery.ts';
import { errorOfEvent, InitialEvents } from './initial-events.ts';
import { type Freshness, Listing, listAll } from './list.ts';
import { selectorQuery, watchListQuery, watchQuery } from './queries.ts';
import { type CompleteList, keyOf, type Replacement, Store, type Suspicion } from './store.ts';
import { watchBatches } from './watch.ts';
import { ApiError, type EndReason, WatchError, watchErrorOf } from './watch-error.ts';

export interface WatchFollowerParts extends BodyParts {
  readonly spec: KindSpec;
  readonly delivery: Delivery;
  readonly intern: Intern;
  /** Who answers, after an outage; absent where nobody asks. */
  readonly identity?: Pick<ClusterIdentity, 'verify' | 'outage'> | undefined;
}

/** What an attempt tells while it runs. */
export interface WatchEvents {
  /** A complete list that is believed was delivered. */
  onListed(): void;
  onSuspicion(suspicion: Suspicion): void;
  /** The server has accepted a watch. */
  onOpen(): void;
  /** An event after the initial ones: the watch works. */
  onAlive(): void;
}

const SILENT: IdleTimeout = { silenceMs: LIMITS.watchSilenceMs, reason: 'silent' };
const LATE: IdleTimeout = { silenceMs: LIMITS.initialSilenceMs, reason: 'late' };

/** A server that went, or a gateway that says so: another one may come. */
const isOutage = ({ reason, status = 0 }: WatchError): boolean =>
  reason === 'broken' || reason === 'silent' || (reason === 'refused' && status >= 500);

/** Ends after which only a new list will do. */
const LIST_AGAIN: readonly EndReason[] = ['expired', 'status', 'undecodable', 'disorder'];

export class WatchFollower {
  readonly store: Store;
  readonly #parts: WatchFollowerParts;
  readonly #events: WatchEvents;
  readonly #decoder: Decoder;
  #needsList = true;
  #canWatchList = true;
  #usesFieldSelector = true;
  /** The server said that it is older than what we saw. */
  #isServerOlder = false;
  /** When a suspicious list is to be confirmed; undefined = nothing is suspicious. */
  #confirmAtMs: number | undefined;
  /** Another cluster answers: what the next list lacks has not vanished. */
  #isForeign = false;
  #bookmarkAtMs: number | undefined;
  #cancels: (() => void)[] = [];

  constructor(parts: WatchFollowerParts, events: WatchEvents) {
    this.#parts = parts;
    this.#events = events;
    this.store = new Store(parts.spec);
    this.#decoder = createDecoder(parts.spec, parts.intern);
  }

  /** Clock time of the last bookmark. */
  get bookmarkAtMs(): number | undefined {
    return this.#bookmarkAtMs;
  }

  get canWatchList(): boolean {
    return this.#canWatchList;
  }

  get needsList(): boolean {
    return this.#needsList;
  }

  /** Runs until the stream ends, for whatever reason. Never rejects. */
  async attempt(request: AbortController): Promise<WatchError> {
    const isConfirmation = this.#isConfirmationDue();
    if (!isConfirmation) this.#armConfirmation(request);
    let isByList = false;
    try {
      await this.#verify(request.signal);
      isByList = this.#needsList && (isConfirmation || !this.#canWatchList);
      if (isByList) await this.#list(request, isConfirmation);
      await this.#watch(request);
      return new WatchError('closed', 'the server ended the watch');
    } catch (error) {
      if (isConfirmation) this.#confirmLater();
      return this.#learn(error, watchErrorOf(error, request.signal), isByList);
    } finally {
      for (const cancel of this.#cancels.splice(0)) cancel();
    }
  }

  /** Another cluster answers: the next attempt lists, and holds what that list lacks. */
  forceRelist(): void {
    this.#isForeign = true;
    this.#needsList = true;
  }

  async #verify(signal: AbortSignal): Promise<void> {
    await this.#parts.identity?.verify();
    signal.throwIfAborted();
  }

  async #list(request: AbortController, isConfirmation: boolean): Promise<void> {
    const freshness = this.#freshness(isConfirmation);
    const selectors = selectorQuery(this.#parts.spec, this.#usesFieldSelector);
    const listing = this.#listing();
    const parts = { ...this.#parts, decoder: this.#decoder, selectors, listing };
    const version = await listAll(parts, freshness, request);
    const { objects } = listing;
    const replacement = this.#replace({ objects, version, isConfirmation });
    this.#isServerOlder = false;
    await this.#parts.delivery.deliver(replacement.changes);
    this.#judge(replacement, request);
  }

  #listing(): Listing {
    return new Listing(this.store, this.#parts.spec, this.#isForeign || this.#isServerOlder);
  }

  #freshness(isConfirmation: boolean): Freshness {
    if (isConfirmation || this.#isServerOlder || this.#isForeign) return 'latest';
    return this.store.version === '' ? 'any' : { notOlderThan: this.store.version };
  }

  async #watch(request: AbortController): Promise<void> {
    let initial = this.#needsList ? new InitialEvents(this.#listing()) : undefined;
    const batches = this.#batches(request, () => initial !== undefined);
    for await (const batch of batches) {
      const changes: ObjectChange[] = [];
      let replacement: Replacement | undefined;
      try {
        for (const event of batch) {
          if (initial === undefined) {
            this.#take(event, changes);
          } else if (initial.take(event, changes)) {
            replacement = this.#complete(initial);
            initial = undefined;
            changes.push(...replacement.changes);
          }
        }
      } finally {
        // An event that ends the stream must not take along those before it.
        await this.#parts.delivery.deliver(changes);
      }
      if (replacement !== undefined) this.#judge(replacement, request);
      if (initial === undefined) this.#events.onAlive();
    }
  }

  /** @param isInitial whether initial events are asked for, and still to come */
  #batches(request: AbortController, isInitial: () => boolean): ReturnType<typeof watchBatches> {
    const { spec, counters, clock } = this.#parts;
    counters[isInitial() ? 'watchListStarts' : 'watchStarts'] += 1;
    const query = isInitial() ? watchListQuery(clock) : watchQuery(this.store.version, clock);
    return watchBatches(
      { ...this.#parts, decoder: this.#decoder },
      {
        path: `${spec.path}${query}${selectorQuery(spec, this.#usesFieldSelector)}`,
        request,
        idleTimeout: () => (isInitial() ? LATE : SILENT),
        onOpen: () => {
          this.#events.onOpen();
          if (isInitial()) this.#limitInitial(request);
        },
      },
    );
  }

  /** A server that ignores the parameter may send events for ever without ever sending the mark. */
  #limitInitial(request: AbortController): void {
    const cancel = this.#parts.clock.after(LIMITS.initialLongestMs, () => {
      if (this.#needsList)
        request.abort(new WatchError('late', 'the initial events did not end in time'));
    });
    this.#cancels.push(cancel);
  }

  #complete({ listing, version }: InitialEvents): Replacement {
    const { objects } = listing;
    this.#bookmarkAtMs = this.#parts.clock.monotonicMs();
    return this.#replace({ objects, version, isConfirmation: false });
  }

  #replace(list: CompleteList): Replacement {
    const isForeign = this.#isForeign;
    this.#needsList = false;
    this.#isForeign = false;
    return this.store.replace({ ...list, isForeign });
  }

  #take(event: WatchEvent, changes: ObjectChange[]): void {
    if (event.type === 'OTHER') return;
    if (event.type === 'ERROR') throw errorOfEvent(event);
    if (event.type === 'BOOKMARK') {
      this.#bookmarkAtMs = this.#parts.clock.monotonicMs();
      this.store.bookmark(event.version);
      return;
    }
    const applied = this.store.apply(event.observed, event.type !== 'DELETED');
    if (applied.kind === 'change') changes.push(applied.change);
    else if (applied.kind === 'stale') this.#parts.counters.staleEvents += 1;
    else if (applied.kind === 'disorder') {
      throw new WatchError('disorder', `${keyOf(event.observed.ref)} came out of order`);
    }
  }

  #judge({ suspicion, isDoubtful }: Replacement, request: AbortController): void {
    if (suspicion !== undefined) {
      this.#parts.counters.suspiciousLists += 1;
      this.#confirmAtMs = undefined;
    }
    if (suspicion === undefined && this.store.held === 0) {
      this.#confirmAtMs = undefined;
    } else {
      // Whatever is held must be asked about, also if the stream broke before it was said.
      this.#confirmAtMs ??= this.#parts.clock.monotonicMs() + LIMITS.confirmDelayMs;
      this.#armConfirmation(request);
    }
    if (suspicion === undefined) this.#events.onListed();
    else this.#events.onSuspicion(suspicion);
    if (isDoubtful)
      throw new WatchError('disorder', 'the server is older than what looked unchanged');
  }

  #isConfirmationDue(): boolean {
    const atMs = this.#confirmAtMs;
    if (atMs === undefined || this.#parts.clock.monotonicMs() < atMs) return false;
    this.#needsList = true;
    return true;
  }

  #armConfirmation(request: AbortController): void {
    if (this.#confirmAtMs === undefined) return;
    const delayMs = this.#confirmAtMs - this.#parts.clock.monotonicMs();
    const confirm = (): void => request.abort(new WatchError('confirm', 'time to confirm a list'));
    this.#cancels.push(this.#parts.clock.after(delayMs, confirm));
  }

  /** A confirmation that failed, or a watch after one that did not: news must not wait for the next. */
  #confirmLater(): void {
    if (this.#confirmAtMs === undefined) return;
    this.#confirmAtMs = this.#parts.clock.monotonicMs() + LIMITS.confirmDelayMs;
    this.#needsList = this.#isForeign;
  }

  /** What the end of an attempt says about the next one. */
  #learn(error: unknown, ended: WatchError, isByList: boolean): WatchError {
    const status = error instanceof ApiError ? error.status : 0;
    if (LIST_AGAIN.includes(ended.reason)) this.#needsList = true;
    if (isOutage(ended)) this.#parts.identity?.outage();
    if (ended.reason === 'late') this.#canWatchList = false;
    if (error instanceof ApiError && error.isTooLargeVersion) this.#isServerOlder = true;
    if (isByList && status === 400 && this.#parts.spec.isFieldSelectorOptional) {
      this.#usesFieldSelector = false;
    }
    const isClientError = status >= 400 && status < 500 && ![401, 408, 410, 429].includes(status);
    if (!isClientError || isByList || !this.#needsList) return ended;
    this.#canWatchList = false;
    return new WatchError('unsupported', ended.message);
  }
}
