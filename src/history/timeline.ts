// SPDX-License-Identifier: Apache-2.0
// What the records of segments say: the state at a time, and the changes in their order. Pure.
import type { ServiceKey } from '../plan/types.ts';
import type { ApiEvent, HistoryRecord, ServiceDiff, ServiceState } from './records.ts';
import { applied } from './state.ts';

/** One line of the history. */
export interface Entry {
  /** By the clock of the node, as an ISO time. */
  readonly at: string;
  readonly what: 'change' | 'failed' | 'start' | 'gap' | 'clock';
  readonly service?: ServiceKey;
  /** What changed; null: the Service is no more. */
  readonly difference?: ServiceDiff;
  readonly events?: readonly ApiEvent[];
  readonly moreEvents?: number;
  /** It differs from what the agent before has written last. */
  readonly isOfStart?: true;
  /** How long the sync took. */
  readonly syncMs?: number;
  readonly text?: string;
}

/** What a Service had, and the change that made it so; absent: it is older than the history. */
export interface Held {
  readonly state: ServiceState;
  readonly since?: Entry;
}

export interface Timeline {
  readonly entries: readonly Entry[];
  /** Of the last moment up to which records were asked for. */
  readonly services: ReadonlyMap<ServiceKey, Held>;
  /** When the oldest record was written; undefined: there is none. */
  readonly from?: string;
}

export interface Asked {
  /** undefined: all of them. */
  readonly service?: ServiceKey | undefined;
  /** Milliseconds since the epoch: records after it do not count; undefined: all do. */
  readonly untilMs?: number | undefined;
  /** Entries to keep, the last ones. */
  readonly last?: number | undefined;
}

/** Two clocks that tell different times by more than this: one was set. */
const CLOCK_MS = 1_000;

/** @param segments the records of each, the oldest first; one that begins with no state counts only if the one before is there */
export function timelineOf(
  segments: Iterable<Iterable<HistoryRecord>>,
  asked: Asked = {},
): Timeline {
  const reader = new Reader(asked);
  for (const records of segments) reader.read(records);
  return reader.timeline();
}

class Reader {
  readonly #asked: Asked;
  #entries: Entry[] = [];
  #services = new Map<ServiceKey, Held>();
  /** Of the last moment that counts: a clock that was set back makes an earlier record later. */
  #kept: Pick<Timeline, 'entries' | 'services'> | undefined;
  #from: number | undefined;
  #last: HistoryRecord | undefined;
  #boot = '';

  constructor(asked: Asked) {
    this.#asked = asked;
  }

  read(records: Iterable<HistoryRecord>): void {
    // The state that a segment begins with may come in several records.
    let keys: Map<ServiceKey, Held> | undefined;
    for (const record of records) {
      this.#from ??= record.at;
      if (this.#asked.untilMs !== undefined && record.at > this.#asked.untilMs) this.#keep();
      else this.#kept = undefined;
      this.#noteClock(record);
      if (record.t === 'key') {
        keys ??= new Map();
        for (const [key, state] of Object.entries(record.services)) this.#key(keys, key, state);
        if (record.isLast === true) this.#services = keys;
      } else this.#take(record);
      this.#last = record;
    }
  }

  timeline(): Timeline {
    const { entries, services } = this.#kept ?? {
      entries: this.#entries,
      services: this.#services,
    };
    const { last } = this.#asked;
    return {
      entries: last === undefined ? entries : entries.slice(-last),
      services,
      ...(this.#from !== undefined && { from: isoOf(this.#from) }),
    };
  }

  #keep(): void {
    this.#kept ??= { entries: [...this.#entries], services: new Map(this.#services) };
  }

  #isAsked(service: ServiceKey): boolean {
    return this.#asked.service === undefined || this.#asked.service === service;
  }

  #key(keys: Map<ServiceKey, Held>, key: ServiceKey, state: ServiceState): void {
    if (!this.#isAsked(key)) return;
    const since = this.#services.get(key)?.since;
    keys.set(key, { state, ...(since && { since }) });
  }

  #take(record: Exclude<HistoryRecord, { t: 'key' }>): void {
    const at = isoOf(record.at);
    switch (record.t) {
      case 'epoch':
        this.#boot = record.boot;
        this.#add({ at, what: 'start', text: startText(record) });
        return;
      case 'gap':
        this.#add({ at, what: 'gap', text: `${record.lost} changes are lost: ${record.reason}` });
        return;
      case 'sync':
        this.#sync(record, at);
        return;
      default: // A later version may write more.
    }
  }

  #sync(record: HistoryRecord & { readonly t: 'sync' }, at: string): void {
    for (const { s: service, d: difference, e: events, more } of record.services) {
      if (!this.#isAsked(service)) continue;
      const entry: Entry = {
        ...{ at, what: 'change', service, difference, syncMs: record.ms },
        ...(events && { events }),
        ...(more !== undefined && { moreEvents: more }),
        ...(record.isStart && { isOfStart: true }),
      };
      this.#add(entry);
      const state = applied(this.#services.get(service)?.state, difference);
      if (state === undefined) this.#services.delete(service);
      else this.#services.set(service, { state, since: entry });
    }
    for (const { s: service, reason } of record.failed ?? []) {
      if (service !== undefined && !this.#isAsked(service)) continue;
      this.#add({ at, what: 'failed', ...(service !== undefined && { service }), text: reason });
    }
  }

  #add(entry: Entry): void {
    this.#entries.push(entry);
    const { last } = this.#asked;
    if (last !== undefined && this.#entries.length > 2 * last + 1_000)
      this.#entries = this.#entries.slice(-last);
  }

  #noteClock({ at, up, t }: HistoryRecord): void {
    const last = this.#last;
    // After a boot the other clock begins anew, and nothing tells how long it was off.
    if (last === undefined || t === 'epoch') return;
    const movedMs = at - last.at - (up - last.up);
    if (this.#boot !== '' && Math.abs(movedMs) > CLOCK_MS) {
      const text = `the clock was set ${movedMs > 0 ? 'forward' : 'back'} by ${Math.abs(movedMs) / 1000} s`;
      this.#add({ at: isoOf(at), what: 'clock', text });
    }
  }
}

const startText = ({ version, node, torn }: HistoryRecord & { readonly t: 'epoch' }): string =>
  `fairlead ${version} started on ${node}${torn === undefined ? '' : `; the last record before was not whole (${torn} bytes)`}`;

const isoOf = (ms: number): string => new Date(ms).toISOString();
