// SPDX-License-Identifier: Apache-2.0
// One complete LIST: page after page (KEP-365), each body taken apart while it flows. A page that expired
// under way is the end of the whole attempt.
import { recordOrEmpty } from '../../../lib/json.ts';
import type { ObjectChange } from '../../../model/types.ts';
import { type BodyParts, chunksOf, type IdleTimeout } from '../decode/body.ts';
import { ItemSplitter } from '../decode/items.ts';
import type { Decoder } from '../decode/watch-events.ts';
import type { KindSpec } from '../kinds.ts';
import { LIMITS } from '../limits.ts';
import type { Delivery } from './delivery.ts';
import type { Listing } from './listing.ts';
import { WatchError } from './watch-error.ts';

/**
 * How old the answer may be. `any`: whatever the server has cached, for the first list. An object: not
 * older than what was seen, so that a lagging server of several cannot take objects back. `latest`: from
 * the quorum, for a list that must be true.
 */
export type Freshness = 'any' | 'latest' | { readonly notOlderThan: string };

const IDLE_TIMEOUT: IdleTimeout = { silenceMs: LIMITS.listSilenceMs, reason: 'silent' };

export interface ListParts extends BodyParts {
  readonly spec: KindSpec;
  readonly decoder: Decoder;
  readonly delivery: Delivery;
  /** Gets all items. */
  readonly listing: Listing;
  /** `&labelSelector=..&fieldSelector=..`, or ''. */
  readonly selectors: string;
}

/** Resolves to the list's version. Throws as Transport does; WatchError `expired` when a continue token is too old; `undecodable`, `silent`. */
export async function listAll(
  parts: ListParts,
  freshness: Freshness,
  request: AbortController,
): Promise<string> {
  let token = '';
  let version = '';
  do {
    parts.counters.listStarts += 1;
    // A continue token carries its own version; naming another is an error.
    const paging =
      token === '' ? freshnessQuery(freshness) : `&continue=${encodeURIComponent(token)}`;
    const path = `${parts.spec.path}?limit=${LIMITS.pageItems}${paging}${parts.selectors}`;
    const envelope = await readPage(parts, path, request);
    const metadata = recordOrEmpty(recordOrEmpty(envelope)['metadata']);
    version = textOf(metadata['resourceVersion']);
    token = textOf(metadata['continue']);
    if (version === '')
      throw new WatchError('undecodable', 'a list without metadata.resourceVersion');
  } while (token !== '');
  return version;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function freshnessQuery(freshness: Freshness): string {
  if (freshness === 'any') return '&resourceVersion=0';
  if (freshness === 'latest') return '';
  const version = encodeURIComponent(freshness.notOlderThan);
  return `&resourceVersion=${version}&resourceVersionMatch=NotOlderThan`;
}

async function readPage(
  parts: ListParts,
  path: string,
  request: AbortController,
): Promise<unknown> {
  const answer = await parts.transport.get(path, request);
  const splitter = new ItemSplitter();
  for await (const chunk of chunksOf(parts, answer, request, () => IDLE_TIMEOUT)) {
    const changes: ObjectChange[] = [];
    try {
      takeChunk(parts, splitter.push(chunk), changes);
    } finally {
      // An item that is no JSON must not take along those before it: the store has them.
      await parts.delivery.deliver(changes);
    }
  }
  return splitter.envelope();
}

function takeChunk(
  { listing, decoder, counters }: ListParts,
  items: readonly Uint8Array[],
  changes: ObjectChange[],
): void {
  const startMs = performance.now();
  for (const item of items) {
    const observed = decoder.item(item);
    counters.items += 1;
    const change = observed === undefined ? undefined : listing.take(observed, true);
    if (change !== undefined) changes.push(change);
  }
  counters.decodeSeconds += (performance.now() - startMs) / 1000;
}
