// SPDX-License-Identifier: Apache-2.0
// Records what an agent programs: changes are queued where a sync ends, and written later, so that no sync waits for a disk. A
// disk that takes nothing costs the history, never a Service.
import type { SyncFacts } from '../../agent/agent.ts';
import { reasonOf } from '../../errors.ts';
import { frameOf } from '../../history/frame.ts';
import type { HistoryRecord, ServiceChangeRecord, ServiceState } from '../../history/records.ts';
import { applied, diffOf, stateOf } from '../../history/state.ts';
import type { Clock } from '../../lib/clock.ts';
import { type PersistentMap, persistentMap } from '../../lib/persistent/map.ts';
import type { Logger } from '../../log.ts';
import type { ObjectChange } from '../../model/types.ts';
import type { HistoryView } from '../../observe/history-view.ts';
import type { Plan, ServiceKey, ServicePlan } from '../../plan/types.ts';
import { inSlices } from '../../sys/clock.ts';
import { type Caused, createEventBook } from './events.ts';
import { type Ring, TooSmallError } from './ring.ts';

/** Changes within this time become one write. */
const GATHER_MS = 250;
/** Services in the queue: each keeps two plans of it. */
const QUEUE = 20_000;
const AGAIN_MS = 30_000;
/** Where it is too small: what is written in vain must not wear the disk. */
const TOO_SMALL_AGAIN_MS = 3_600_000;
const SLICE_MS = 5;
/** Services in one record of a full state: 200 would keep the event loop for 40 ms on a busy node. */
const PART = 25;

interface Queued {
  readonly at: number;
  readonly up: number;
  readonly ms: number;
  readonly changes: readonly (Caused & {
    readonly key: ServiceKey;
    readonly before: ServicePlan | undefined;
    readonly after: ServicePlan | undefined;
  })[];
  readonly failed: SyncFacts['report']['failed'];
}

export interface RecorderParts {
  readonly ring: Pick<Ring, 'open' | 'append' | 'next' | 'abandon' | 'isFull' | 'bytes'>;
  readonly dir: string;
  readonly identity: { readonly boot: string; readonly version: string; readonly node: string };
  /** Milliseconds since the boot. */
  readonly uptimeMs: () => number;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn' | 'info'>;
}

type Content<R = HistoryRecord> = R extends HistoryRecord ? Omit<R, 'n' | 'at' | 'up'> : never;

export class Recorder {
  readonly #parts: RecorderParts;
  readonly #book = createEventBook();
  #programmed: PersistentMap<ServicePlan> = persistentMap<ServicePlan>();
  #isStarted = false;
  #queue: Queued[] = [];
  #queued = 0;
  #number = 0;
  /** Changes that were not written since the last full state. */
  #lost = 0;
  #lostTotal = 0;
  #errors = 0;
  #written = 0;
  #againMs = AGAIN_MS;
  #problem: string | undefined;
  #endWait: (() => void) | undefined;
  #isWriting = false;
  /** The history of the agent before is read, and continued. */
  #isBegun = false;
  #isClosed = false;

  constructor(parts: RecorderParts) {
    this.#parts = parts;
  }

  /** To be called with all that the agent accepts, before it does. */
  arrived(changes: readonly ObjectChange[]): void {
    // What the first lists had is in the first state.
    if (!this.#isStarted || this.#isClosed) return;
    this.#book.arrived(changes, this.#parts.clock.nowMs(), this.#parts.uptimeMs());
  }

  planned(plan: Plan): void {
    if (this.#isStarted) this.#book.planned(plan, this.#programmed);
  }

  synced({ changes, report, isFull, isComplete }: SyncFacts): void {
    if (this.#isClosed) return;
    const at = this.#parts.clock.nowMs();
    const up = this.#parts.uptimeMs();
    const after = [...changes].map(([key, change]) => [key, change.after] as const);
    this.#programmed = this.#programmed.withChanges(after);
    if (!this.#isStarted) {
      if (!isFull) return;
      this.#isStarted = true;
      this.#run(() => this.#begin(this.#programmed, at, up));
      return;
    }
    if (changes.size > 0 || report.failed.length > 0) {
      const caused = [...changes].map(([key, change]) => ({
        ...{ key, before: change.before, after: change.after },
        ...this.#book.take(key, change.after, up),
      }));
      this.#enqueue({ at, up, ms: report.elapsedMs, changes: caused, failed: report.failed });
    }
    if (isComplete) this.#book.clear();
  }

  view(): HistoryView {
    return {
      dir: this.#parts.dir,
      bytes: this.#parts.ring.bytes(),
      writtenBytes: this.#written,
      errors: this.#errors,
      lostChanges: this.#lostTotal,
      ...(this.#problem !== undefined && { problem: this.#problem }),
    };
  }

  /** What is in the queue is left out: the next start writes what differs. */
  close(): void {
    this.#isClosed = true;
    this.#endWait?.();
    this.#queue = [];
    if (!this.#isWriting) void this.#parts.ring.abandon();
  }

  #enqueue(item: Queued): void {
    if (this.#queued + item.changes.length > QUEUE || this.#problem !== undefined) {
      const lost = this.#queued + item.changes.length;
      this.#lost += lost;
      this.#lostTotal += lost;
      this.#queue = [];
      this.#queued = 0;
    } else {
      this.#queue.push(item);
      this.#queued += item.changes.length;
    }
    this.#writeIn(GATHER_MS);
  }

  #writeIn(delayMs: number): void {
    if (this.#endWait !== undefined || this.#isWriting || this.#isClosed) return;
    this.#endWait = this.#parts.clock.after(delayMs, () => {
      this.#endWait = undefined;
      this.#run(() => this.#flush());
    });
  }

  /** One after the other, and never a rejection. */
  #run(work: () => Promise<void>): void {
    this.#isWriting = true;
    void work()
      .then(
        () => this.#recovered(),
        (error: unknown) => this.#failed(error),
      )
      .finally(() => {
        this.#isWriting = false;
        if (this.#isClosed) void this.#parts.ring.abandon();
        else if (this.#problem !== undefined) this.#writeIn(this.#againMs);
        else if (this.#queue.length > 0 || this.#lost > 0) this.#writeIn(GATHER_MS);
      });
  }

  #recovered(): void {
    if (this.#problem === undefined) return;
    this.#problem = undefined;
    this.#parts.log.info({ dir: this.#parts.dir }, 'history is written again');
  }

  async #failed(error: unknown): Promise<void> {
    this.#errors += 1;
    const problem = reasonOf(error);
    if (problem !== this.#problem)
      this.#parts.log.warn({ dir: this.#parts.dir, reason: problem }, 'history cannot be written');
    this.#problem = problem;
    this.#againMs = error instanceof TooSmallError ? TOO_SMALL_AGAIN_MS : AGAIN_MS;
    this.#lose(this.#queued);
    await this.#parts.ring.abandon();
  }

  #lose(changes: number): void {
    this.#lost += Math.max(1, changes);
    this.#lostTotal += Math.max(1, changes);
    this.#queue = [];
    this.#queued = 0;
  }

  /** Continues the history of the agent before: what differs from its end is a change of this start. */
  async #begin(now: PersistentMap<ServicePlan>, at: number, up: number): Promise<void> {
    const { ring, identity } = this.#parts;
    const { records, torn } = await ring.open();
    this.#number = records.at(-1)?.n ?? 0;
    this.#isBegun = true;
    const epoch = { t: 'epoch', ...identity, ...(torn > 0 && { torn }) } as const;
    // A full state that is not complete is none.
    const hasState = records.some((record) => record.t === 'key' && record.isLast === true);
    if (ring.isFull() || !hasState) {
      await this.#segment(now, [epoch]);
      return;
    }
    const services = await inSlices(startDifferences(records, now), SLICE_MS, () => this.#isClosed);
    await this.#write([this.#stamped(epoch, at, up)]);
    for (let from = 0; from < (services?.length ?? 0); from += PART) {
      const part = services?.slice(from, from + PART) ?? [];
      await this.#write([
        this.#stamped({ t: 'sync', ms: 0, isStart: true, services: part }, at, up),
      ]);
    }
  }

  async #flush(): Promise<void> {
    const { ring, clock, uptimeMs } = this.#parts;
    if (!this.#isBegun)
      await this.#begin(beforeAll(this.#programmed, this.#queue), clock.nowMs(), uptimeMs());
    if (this.#lost > 0 || ring.isFull()) {
      const reason = this.#problem ?? 'more changes than can wait for the disk';
      const gap = { t: 'gap', lost: this.#lost, reason } as const;
      const isGap = this.#lost > 0;
      this.#lost = 0;
      // The state is what the queue leads to.
      const state = isGap ? this.#programmed : beforeAll(this.#programmed, this.#queue);
      await this.#segment(state, isGap ? [gap] : []);
    }
    const queue = this.#queue;
    this.#queue = [];
    this.#queued = 0;
    const frames: Buffer[] = [];
    await inSlices(this.#framesOf(queue, frames), SLICE_MS, () => this.#isClosed);
    if (frames.length > 0) await this.#append(Buffer.concat(frames), false);
  }

  *#framesOf(queue: readonly Queued[], frames: Buffer[]): Generator<void, void> {
    for (const { at, up, ms, changes, failed } of queue) {
      const services: ServiceChangeRecord[] = [];
      for (const { key, before, after, events, more } of changes) {
        const d = diffOf(before && stateOf(before), after && stateOf(after));
        // Nobody asked for it, and nothing that is recorded has changed.
        if (events.length === 0 && d !== null && Object.keys(d).length === 0) continue;
        services.push({
          ...{ s: key, d },
          ...(events.length > 0 && { e: events }),
          ...(more > 0 && { more }),
        });
        yield;
      }
      const refused = failed
        .slice(0, PART)
        .map(({ service, reason }) => ({ ...(service !== undefined && { s: service }), reason }));
      const content = { t: 'sync' as const, ms: Math.round(ms * 1000) / 1000, services };
      const record = refused.length > 0 ? { ...content, failed: refused } : content;
      if (services.length > 0 || refused.length > 0)
        frames.push(frameOf(this.#stamped(record, at, up)));
    }
  }

  /** Begins a segment with a full state. */
  async #segment(services: PersistentMap<ServicePlan>, then: readonly Content[]): Promise<void> {
    await this.#parts.ring.next();
    let part: Record<ServiceKey, ServiceState> = {};
    let count = 0;
    for (const [key, plan] of services) {
      part[key] = stateOf(plan);
      count += 1;
      if (count % PART > 0) continue;
      // Each write gives way to the event loop.
      await this.#write([this.#stamped({ t: 'key', services: part })], true);
      part = {};
      if (this.#isClosed) return;
    }
    await this.#write([this.#stamped({ t: 'key', services: part, isLast: true })], true);
    await this.#write(then.map((content) => this.#stamped(content)));
  }

  #stamped(
    content: Content,
    at = this.#parts.clock.nowMs(),
    up = this.#parts.uptimeMs(),
  ): HistoryRecord {
    this.#number += 1;
    return { n: this.#number, at, up: Math.round(up), ...content };
  }

  #write(records: readonly HistoryRecord[], isState = false): Promise<void> {
    return records.length === 0
      ? Promise.resolve()
      : this.#append(Buffer.concat(records.map(frameOf)), isState);
  }

  async #append(bytes: Buffer, isState: boolean): Promise<void> {
    if (this.#isClosed) return;
    await this.#parts.ring.append(bytes, isState);
    this.#written += bytes.length;
  }
}

/** The state from which the queue leads to `now`. */
const beforeAll = (
  now: PersistentMap<ServicePlan>,
  queue: readonly Queued[],
): PersistentMap<ServicePlan> =>
  now.withChanges(
    queue
      .flatMap(({ changes }) => changes)
      .reverse()
      .map(({ key, before }) => [key, before] as const),
  );

/** What the last segment ends with, and what is programmed now. */
function* startDifferences(
  records: readonly HistoryRecord[],
  now: ReadonlyMap<ServiceKey, ServicePlan>,
): Generator<void, readonly ServiceChangeRecord[]> {
  const last = new Map<ServiceKey, ServiceState>();
  for (const record of records) {
    if (record.t === 'key')
      for (const [key, state] of Object.entries(record.services)) last.set(key, state);
    if (record.t !== 'sync') continue;
    for (const { s, d } of record.services) {
      const state = applied(last.get(s), d);
      if (state === undefined) last.delete(s);
      else last.set(s, state);
    }
    yield;
  }
  const changes: ServiceChangeRecord[] = [];
  for (const [key, plan] of now) {
    const before = last.get(key);
    const d = diffOf(before, stateOf(plan));
    if (before === undefined || Object.keys(d ?? {}).length > 0) changes.push({ s: key, d });
    yield;
  }
  for (const key of last.keys()) if (!now.has(key)) changes.push({ s: key, d: null });
  return changes;
}
