// SPDX-License-Identifier: Apache-2.0
// One complete LIST: page after page (KEP-365), each body taken apart while it flows. A page that expired
// under way is the end of the whole attempt.
//
// Later lists wait until they are complete, because only then can be said what they mean; what they show
// unchanged is not kept in full. The very first list of a kind goes out object by object: it can take nothing
// away, and until it is complete, and believed, nobody acts on what it has shown (see InitialSync). So a whole
// cluster is never held at once.
import { recordOrEmpty } from '../../../lib/json.ts';
import type { ObjectChange } from '../../../model/types.ts';
import { type BodyParts, chunksOf, type IdleTimeout } from '../decode/body.ts';
import { ItemSplitter } from '../decode/items.ts';
import type { Decoder, ObservedObject } from '../decode/watch-events.ts';
import type { KindSpec } from '../kinds.ts';
import { LIMITS } from '../limits.ts';
import type { Delivery } from './delivery.ts';
import { type Known, keyOf, type Store } from './store.ts';
import { isOlder } from './versions.ts';
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

/** What one list has shown so far, of a LIST or of the initial events of a watch. */
export class Listing {
  readonly #store: Store;
  readonly #spec: KindSpec;
  readonly #isDoubted: boolean;
  /** Undefined for a first list: all that it has shown is in the store, and nothing else is. */
  readonly #shown: Map<string, Known | ObservedObject> | undefined;

  /** `isDoubted`: the server may be another or an older one, where equal versions prove nothing. */
  constructor(store: Store, spec: KindSpec, isDoubted: boolean) {
    // If an earlier first list broke half-way, this one is compared with what that one has shown.
    const isFirst = store.version === '' && store.size === 0;
    this.#store = store;
    this.#spec = spec;
    this.#isDoubted = isDoubted;
    this.#shown = isFirst ? undefined : new Map();
  }

  /** By key, each as it was shown last; `Known` for what is as the store knows it. */
  get objects(): ReadonlyMap<string, Known | ObservedObject> {
    return this.#shown ?? this.#store.known;
  }

  /** The change that may go out before the list is complete, if there is one. */
  take(observed: ObservedObject, isPut: boolean): ObjectChange | undefined {
    const last = this.objects.get(keyOf(observed.ref));
    if (last !== undefined && isOlder(observed.version, last.version)) return undefined;
    const isThere = isPut && this.#spec.isWanted(observed.object);
    if (this.#shown === undefined) {
      return isThere ? this.#store.put(observed) : this.#store.remove(observed.ref);
    }
    this.#keep(this.#shown, observed, isThere);
    return undefined;
  }

  #keep(
    shown: Map<string, Known | ObservedObject>,
    observed: ObservedObject,
    isThere: boolean,
  ): void {
    const key = keyOf(observed.ref);
    const known = this.#isDoubted ? undefined : this.#store.unchanged(observed);
    if (isThere) shown.set(key, known ?? observed);
    else shown.delete(key);
  }
}
