// SPDX-License-Identifier: Apache-2.0
// Whether the cluster that answers after an outage is still the one that was followed.

import { reasonOf } from '../../../errors.ts';
import { createBackoff } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import { recordOrEmpty } from '../../../lib/json.ts';
import type { Logger } from '../../../log.ts';
import type { ObjectChange } from '../../../model/types.ts';
import { LIMITS } from '../limits.ts';
import { isOlder } from '../watch/versions.ts';
import { ApiError, WatchError } from '../watch/watch-error.ts';
import type { Transport } from './transport.ts';

export interface IdentityParts {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn' | 'debug'>;
  /** The resourceVersions that the kinds would go on from. */
  readonly versions: () => readonly string[];
  /** Another cluster answers, or this one with an older store. */
  readonly onReplaced: () => void;
  /** The API server answers again: nobody needs to wait out a pause that has grown while it did not. */
  readonly onAnswer: () => void;
  /** Time over which all nodes of the cluster spread what they ask at once. */
  readonly spreadMs: () => number;
}

const NAME = 'kubernetes';
const NAMESPACE = 'default';
/** A list, because system:node-proxier may list Services but not get one; from the quorum: it must be true. */
const PATH = `/api/v1/namespaces/${NAMESPACE}/services?fieldSelector=metadata.name%3D${NAME}`;

interface Found {
  /** '' = no such Service. */
  readonly uid: string;
  readonly version: string;
}

/**
 * A watch goes on from a resourceVersion, which is a mere number: a store that was emptied, restored or
 * swapped takes it, too. If its own count is higher, what happened below is never told; if it is lower,
 * kube-apiserver accepts the watch and says nothing, no bookmark even, until it has counted up to there.
 * Either way nobody would notice that the objects we hold belong to another time or place.
 *
 * So who answers is asked once after each outage, before watches go on: the uid of Service
 * default/kubernetes, which every API server makes in an empty store and which is kept in a backup, and
 * the store's version, which never goes back on its own. If either is wrong, all kinds are listed again,
 * and what vanished is held until it is confirmed (see Store). A clean end of a watch is no outage.
 *
 * Where kinds are kept in several etcds their versions say nothing of each other: then an outage may cost
 * lists for nothing, and no more than that.
 *
 * The question is also the probe that finds out that a server is back. It is asked for all kinds together,
 * at a pace that neither grows with the length of the outage (a connection that is refused costs next to
 * nothing) nor lets many nodes arrive at once: see ADR 13. Its answer ends the pauses of all kinds.
 *
 * No answer is no news: watches go on as before, and the question is asked again, because an API server
 * before an empty store says 403 until it has made its own roles.
 */
export class ClusterIdentity {
  readonly #parts: IdentityParts;
  readonly #backoff;
  #uid = '';
  #isDue = false;
  /** Answers 401, 403 and the like since the last list. */
  #refusals = 0;
  /** The server has said when to ask again. */
  #isToldToWait = false;
  #asking: Promise<void> | undefined;
  #request: AbortController | undefined;
  #cancelRetry: (() => void) | undefined;
  #isClosed = false;

  constructor(parts: IdentityParts) {
    this.#parts = parts;
    this.#backoff = createBackoff(LIMITS.backoff, parts.clock.random);
  }

  /** Learns the uid from what passes by. */
  take(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      const { kind, namespace, name } = change.ref;
      if (kind !== 'Service' || namespace !== NAMESPACE || name !== NAME) continue;
      if (change.type === 'put') this.#meet(uidOf(change.object));
    }
  }

  /** A connection failed, or something in front of the API server said so. */
  outage(): void {
    this.#isDue = true;
    if (this.#asking === undefined && this.#cancelRetry === undefined)
      this.#askAfter(this.#probeMs(0));
  }

  /** Resolves at once unless there was an outage; all kinds wait for the same answer. Never rejects. */
  async verify(): Promise<void> {
    if (!this.#isDue || this.#isClosed || this.#isToldToWait) return;
    this.#asking ??= this.#verify().finally(() => {
      this.#asking = undefined;
    });
    // Who has seen nothing yet has nothing to doubt.
    if (this.#uid !== '') await this.#asking;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelRetry?.();
    this.#request?.abort(new WatchError('stopped', 'stopped'));
  }

  async #verify(): Promise<void> {
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    try {
      // Watches that still run may see more before the answer is here.
      const seen = this.#parts.versions();
      const found = await this.#ask();
      this.#isDue = false;
      this.#refusals = 0;
      this.#backoff.reset();
      this.#judge(found, seen);
      this.#parts.onAnswer();
    } catch (error) {
      this.#later(error);
    }
  }

  async #ask(): Promise<Found> {
    this.#request = new AbortController();
    return foundIn(await this.#parts.transport.json(PATH, this.#request));
  }

  #judge({ uid, version }: Found, seen: readonly string[]): void {
    const isOlderStore = seen.some((one) => isOlder(version, one));
    if (this.#uid === '') return;
    if (uid !== this.#uid || isOlderStore) this.#replaced(uid, isOlderStore);
  }

  /** A list or watch may tell it first. */
  #meet(uid: string): void {
    if (uid === '') return;
    if (this.#uid !== '' && uid !== this.#uid) this.#replaced(uid, false);
    this.#uid = uid;
  }

  #replaced(uid: string, isOlderStore: boolean): void {
    const why = isOlderStore ? 'the store is older than what was seen' : 'another cluster answers';
    this.#parts.log.warn({ known: this.#uid, found: uid }, `${why}, will list all kinds again`);
    this.#uid = uid;
    this.#parts.onReplaced();
  }

  /** Who is told again and again that he may not ask stops asking, until the next outage. */
  #later(error: unknown): void {
    if (this.#isClosed) return;
    const { status = 0, retryAfterMs = 0 } = error instanceof ApiError ? error : {};
    const isRefusal = status >= 400 && status < 500 && status !== 429;
    if (isRefusal) this.#refusals += 1;
    if (this.#refusals >= LIMITS.identityTries) {
      this.#refusals = 0;
      this.#isDue = false;
      return;
    }
    const askedMs = Math.min(retryAfterMs, LIMITS.retryAfterMaxMs);
    const isSlow = status === 429 || this.#refusals > LIMITS.identityProbes;
    const waitMs = isSlow ? this.#backoff.nextMs(askedMs) : Math.max(this.#probeMs(0.5), askedMs);
    this.#parts.log.debug({ reason: reasonOf(error), waitMs }, 'cluster not verified');
    this.#isToldToWait = retryAfterMs > 0;
    this.#askAfter(waitMs);
  }

  /** At random between a share of the longest pause and all of it. */
  #probeMs(least: number): number {
    const { clock, spreadMs } = this.#parts;
    const mostMs = Math.max(LIMITS.probeMs, spreadMs());
    return mostMs * (least + (1 - least) * clock.random());
  }

  #askAfter(waitMs: number): void {
    if (this.#isClosed) return;
    this.#cancelRetry = this.#parts.clock.after(waitMs, () => {
      this.#cancelRetry = undefined;
      this.#isToldToWait = false;
      void this.verify();
    });
  }
}

const uidOf = (object: unknown): string => {
  const { uid } = recordOrEmpty(recordOrEmpty(object)['metadata']);
  return typeof uid === 'string' ? uid : '';
};

/** Throws SyntaxError for what is no list. */
function foundIn(answer: unknown): Found {
  const { metadata, items } = recordOrEmpty(answer);
  const { resourceVersion } = recordOrEmpty(metadata);
  if (!Array.isArray(items) || typeof resourceVersion !== 'string') {
    throw new SyntaxError('not a list');
  }
  const own: unknown = items.find(
    (item) => recordOrEmpty(recordOrEmpty(item)['metadata'])['name'] === NAME,
  );
  return { uid: uidOf(own), version: resourceVersion };
}
