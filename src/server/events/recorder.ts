// SPDX-License-Identifier: Apache-2.0
// Queues Events, drops repetitions, and posts the rest one by one. Nothing here throws or blocks: Events are
// best effort, as everywhere in Kubernetes.
import type { Clock } from '../../lib/clock.ts';
import { SYSTEM_CLOCK } from '../../sys/clock.ts';
import { buildEvent, type EventReason, type EventTarget, type KubeEvent } from './event.ts';

/** Implemented by the API server's client, with a time-out of its own. */
export interface EventSender {
  post(event: KubeEvent): Promise<void>;
}

export interface EventStats {
  readonly sent: number;
  /** The API server rejected it, or could not be reached. */
  readonly failed: number;
  /** The queue was full. */
  readonly dropped: number;
  /** Counted in the next event of the same kind instead of sent. */
  readonly heldBack: number;
}

export interface EventRecorder {
  record(reason: EventReason, target: EventTarget, note: string): void;
  stats(): EventStats;
  /** Resolves when the queue is empty and nothing is in flight. */
  idle(): Promise<void>;
}

/** Three at once for each reason and object, then one in five minutes. */
const BURST = 3;
const REFILL_MS = 300_000;
const MAX_QUEUED = 100;
const MAX_BUCKETS = 1000;

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
  clocks: Pick<Clock, 'nowMs' | 'monotonicMs'> = SYSTEM_CLOCK,
): EventRecorder {
  return new Recorder(sender, nodeName, clocks);
}

class Recorder implements EventRecorder {
  readonly #sender: EventSender;
  readonly #nodeName: string;
  readonly #clocks: Pick<Clock, 'nowMs' | 'monotonicMs'>;
  /** Least recently used first. */
  readonly #buckets = new Map<string, Bucket>();
  readonly #waiting: KubeEvent[] = [];
  readonly #stats = { sent: 0, failed: 0, dropped: 0, heldBack: 0 };
  #serial = 0;
  #sending: Promise<void> | undefined;

  constructor(sender: EventSender, nodeName: string, clocks: Pick<Clock, 'nowMs' | 'monotonicMs'>) {
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

  async idle(): Promise<void> {
    await this.#sending;
  }

  /** Sequential, so that a slow API server does not get a burst. */
  async #sendAll(): Promise<void> {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      try {
        await this.#sender.post(next);
        this.#stats.sent++;
      } catch {
        this.#stats.failed++;
      }
    }
    this.#sending = undefined;
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

const targetKey = (target: EventTarget): string =>
  target.kind === 'Node' ? `Node ${target.name}` : `Service ${target.namespace}/${target.name}`;
