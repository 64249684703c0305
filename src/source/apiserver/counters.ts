// SPDX-License-Identifier: Apache-2.0
// What is counted for metrics, and the shapes in which it is handed out; nothing here knows who serves
// them. `Counters` are read: one set for each kind, in ClusterStatus.watches. `RequestFacts` are told one by
// one, as they happen, to ClusterHandlers.onRequest, because a histogram cannot be read back into buckets.
import { END_REASONS, type EndReason } from './watch/watch-error.ts';

/** One HTTP request: the labels of client-go's `rest_client_` metrics, and how long it took. */
export interface RequestFacts {
  readonly method: 'GET' | 'POST' | 'PATCH';
  /** `10.0.0.1:6443`. */
  readonly host: string;
  /** HTTP status, or `<error>` if there was no answer. */
  readonly code: string;
  /** Until the headers of the answer: a watch goes on for minutes after them. */
  readonly durationMs: number;
}

const EVENT_TYPES = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR', 'OTHER'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** Of one kind; they only grow. */
export interface Counters {
  /** LIST requests, each page counted. */
  listStarts: number;
  /** Watches from a known resourceVersion. */
  watchStarts: number;
  /** Watches that asked for initial events (KEP-3157). */
  watchListStarts: number;
  readonly ends: Record<EndReason, number>;
  readonly events: Record<EventType, number>;
  /** Items of LIST answers. */
  items: number;
  /** Of bodies, as they came from the connection. */
  bytes: number;
  /** Spent turning bytes into pruned objects. */
  decodeSeconds: number;
  /** Events that said nothing new: repeated, or older than what is known. */
  staleEvents: number;
  /** Complete lists whose removals were held back. */
  suspiciousLists: number;
}

export function createCounters(): Counters {
  return {
    listStarts: 0,
    watchStarts: 0,
    watchListStarts: 0,
    ends: zeros(END_REASONS),
    events: zeros(EVENT_TYPES),
    items: 0,
    bytes: 0,
    decodeSeconds: 0,
    staleEvents: 0,
    suspiciousLists: 0,
  };
}

function zeros<K extends string>(keys: readonly K[]): Record<K, number> {
  const entries: Partial<Record<K, number>> = {};
  for (const key of keys) entries[key] = 0;
  return entries as Record<K, number>;
}
