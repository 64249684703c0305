// SPDX-License-Identifier: Apache-2.0
// Queues Events, drops repetitions, and posts the rest one by one. What does not reach the API server is posted
// again for about two minutes, as client-go does. Nothing here throws or blocks: Events are best effort, as
// everywhere in Kubernetes.
import type { Clock } from '../../lib/clock.ts';
import { recordOrEmpty } from '../../lib/json.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import { buildEvent, type EventReason, type EventTarget, type KubeEvent } from './event.ts';

/** Implemented by the API server's client, with a time-out of its own. */
export interface EventSender {
  post(event: KubeEvent): Promise<void>;
}

export interface EventStats {
  readonly sent: number;
  /** The API server rejected it, or could not be reached at any attempt. */
  readonly failed: number;
  /** The queue was full. */
  readonly dropped: number;
  /** Counted in the next event of the same kind instead of sent. */
  readonly heldBack: number;
}

type EventClock = Pick<Clock, 'nowMs' | 'monotonicMs' | 'after' | 'random'>;

/** Three at once for each reason and object, then one in five minutes. */
const BURST = 3;
const REFILL_MS = 300_000;
const MAX_QUEUED = 100;
const MAX_BUCKETS = 1000;
/** client-go's maxTriesPerEvent and sleepDuration. */
const MAX_ATTEMPTS = 12;
const RETRY_MS = 10_000;

/** Times are monotonic. */
interface Bucket {
  tokens: number;
  refilledAtMs: number;
  lastNote: string;
  lastSentMs: number;
  held: number;
}

export function createEventRecorder(
  sender: EventSender,
  nodeName: string,
  clocks: EventClock = SYSTEM_CLOCK,
): EventRecorder {
  return new EventRecorder(sender, nodeName, clocks);
}

export class EventRecorder {
  readonly #sender: EventSender;
  readonly #nodeName: string;
  readonly #clocks: EventClock;
  /** Least recently used first. */
  readonly #buckets = new Map<string, Bucket>();
  readonly #waiting: KubeEvent[] = [];
  readonly #stats = { sent: 0, failed: 0, dropped: 0, heldBack: 0 };
  #serial = 0;
  #sending: Promise<void> | undefined;
  #isClosed = false;
  #endPause = (): void => undefined;

  constructor(sender: EventSender, nodeName: string, clocks: EventClock) {
    this.#sender = sender;
    this.#nodeName = nodeName;
    this.#clocks = clocks;
  }

  record(reason: EventReason, target: EventTarget, note: string): void {
    const atMs = this.#clocks.monotonicMs();
    const bucket = this.#bucketOf(`${reason} ${targetKey(target)}`, atMs);
    if (!isAllowed(bucket, note, atMs)) {
      bucket.held++;
      this.#stats.heldBack++;
      return;
    }
    if (this.#waiting.length >= MAX_QUEUED) {
      this.#stats.dropped++;
      return;
    }
    const facts = { reason, target, note, count: bucket.held + 1 };
    Object.assign(bucket, { lastNote: note, lastSentMs: atMs, held: 0 });
    bucket.tokens--;
    const nowMs = this.#clocks.nowMs();
    const origin = { nodeName: this.#nodeName, nowMs, serial: this.#serial++ };
    this.#waiting.push(buildEvent(facts, origin));
    this.#sending ??= this.#sendAll();
  }

  stats(): EventStats {
    return { ...this.#stats };
  }

  /** Resolves when the queue is empty and nothing is in flight. */
  async idle(): Promise<void> {
    await this.#sending;
  }

  /** Posts nothing more. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.length = 0;
    this.#endPause();
  }

  /** Sequential, so that a slow API server does not get a burst. */
  async #sendAll(): Promise<void> {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const isSent = await this.#send(next);
      this.#stats[isSent ? 'sent' : 'failed']++;
    }
    this.#sending = undefined;
  }

  async #send(event: KubeEvent): Promise<boolean> {
    for (let attempt = 1; !this.#isClosed; attempt++) {
      try {
        await this.#sender.post(event);
        return true;
      } catch (error) {
        // Posted before, though its answer was lost: the name is unique.
        if (attempt > 1 && statusOf(error) === 409) return true;
        if (attempt === MAX_ATTEMPTS || isRejected(statusOf(error))) return false;
        await this.#pause();
      }
    }
    return false;
  }

  /** Half of it to all of it, so that the nodes of a cluster do not come back together. */
  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clocks.after(RETRY_MS * (0.5 + this.#clocks.random() / 2), resolve);
      this.#endPause = () => {
        cancel();
        resolve();
      };
      if (this.#isClosed) this.#endPause();
    });
  }

  #bucketOf(key: string, atMs: number): Bucket {
    const known = this.#buckets.get(key);
    const bucket = known ?? {
      tokens: BURST,
      refilledAtMs: atMs,
      lastNote: '',
      lastSentMs: Number.NEGATIVE_INFINITY,
      held: 0,
    };
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    for (const oldest of this.#buckets.keys()) {
      if (this.#buckets.size <= MAX_BUCKETS) break;
      this.#buckets.delete(oldest);
    }
    const refills = Math.floor((atMs - bucket.refilledAtMs) / REFILL_MS);
    if (refills > 0) {
      bucket.tokens = Math.min(BURST, bucket.tokens + refills);
      bucket.refilledAtMs += refills * REFILL_MS;
    }
    return bucket;
  }
}

/** An identical note is suppressed until the refill interval has passed, regardless of the tokens left. */
function isAllowed({ tokens, lastNote, lastSentMs }: Bucket, note: string, atMs: number): boolean {
  if (note === lastNote && atMs - lastSentMs < REFILL_MS) return false;
  return tokens > 0;
}

/** The HTTP status of an answer; undefined if there was none. */
function statusOf(error: unknown): number | undefined {
  const { status } = recordOrEmpty(error);
  return typeof status === 'number' ? status : undefined;
}

/** A busy or broken API server may accept it later. */
const isRejected = (status: number | undefined): boolean =>
  status !== undefined && status < 500 && status !== 429;

const targetKey = (target: EventTarget): string =>
  target.kind === 'Node' ? `Node ${target.name}` : `Service ${target.namespace}/${target.name}`;
