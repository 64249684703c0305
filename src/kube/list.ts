// SPDX-License-Identifier: Apache-2.0
// One complete LIST: page after page (KEP-365), each body taken apart while it flows. Nothing is said
// before the last page; a page that expired under way is the end of the whole attempt. Floor 4.
import { recordOrEmpty } from '../lib/json.ts';
import { type BodyParts, chunksOf, type Patience } from './body.ts';
import { Ended } from './ended.ts';
import type { Decoder, Sighting } from './events.ts';
import { ItemSplitter } from './items.ts';
import type { KindSpec } from './kinds.ts';
import { LIMITS } from './limits.ts';
import { keyOf } from './store.ts';

/**
 * How old the answer may be. `any`: whatever the server has cached, for the first list. An object: not
 * older than what was seen, so that a lagging server of several cannot take objects back. `latest`: from
 * the quorum, for a list that must be true.
 */
export type Freshness = 'any' | 'latest' | { readonly notOlderThan: string };

const PATIENCE: Patience = { silenceMs: LIMITS.listSilenceMs, reason: 'silent' };

export interface ListParts extends BodyParts {
  readonly spec: KindSpec;
  readonly decoder: Decoder;
  /** `&labelSelector=..&fieldSelector=..`, or ''. */
  readonly selectors: string;
}

export interface Listed {
  readonly sightings: ReadonlyMap<string, Sighting>;
  readonly version: string;
}

/** Throws as Transport does; Ended `expired` when a continue token is too old; `undecodable`, `silent`. */
export async function listAll(
  parts: ListParts,
  freshness: Freshness,
  request: AbortController,
): Promise<Listed> {
  const sightings = new Map<string, Sighting>();
  let token = '';
  let version = '';
  do {
    parts.counters.listStarts += 1;
    // A continue token carries its own version; naming another is an error.
    const paging =
      token === '' ? freshnessQuery(freshness) : `&continue=${encodeURIComponent(token)}`;
    const path = `${parts.spec.path}?limit=${LIMITS.pageItems}${paging}${parts.selectors}`;
    const envelope = await readPage(parts, path, { request, sightings });
    const metadata = recordOrEmpty(recordOrEmpty(envelope)['metadata']);
    version = textOf(metadata['resourceVersion']);
    token = textOf(metadata['continue']);
    if (version === '') throw new Ended('undecodable', 'a list without metadata.resourceVersion');
  } while (token !== '');
  return { sightings, version };
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function freshnessQuery(freshness: Freshness): string {
  if (freshness === 'any') return '&resourceVersion=0';
  if (freshness === 'latest') return '';
  const version = encodeURIComponent(freshness.notOlderThan);
  return `&resourceVersion=${version}&resourceVersionMatch=NotOlderThan`;
}

interface Page {
  readonly request: AbortController;
  readonly sightings: Map<string, Sighting>;
}

async function readPage(
  parts: ListParts,
  path: string,
  { request, sightings }: Page,
): Promise<unknown> {
  const answer = await parts.transport.get(path, request);
  const splitter = new ItemSplitter();
  for await (const chunk of chunksOf(parts, answer, request, () => PATIENCE)) {
    takeChunk(parts, splitter, { chunk, sightings });
  }
  return splitter.envelope();
}

function takeChunk(
  { spec, decoder, counters }: ListParts,
  splitter: ItemSplitter,
  { chunk, sightings }: { readonly chunk: Uint8Array; readonly sightings: Map<string, Sighting> },
): void {
  const startMs = performance.now();
  for (const text of splitter.push(chunk)) {
    const sighting = decoder.item(text);
    counters.items += 1;
    if (sighting === undefined || !spec.isWanted(sighting.object)) continue;
    sightings.set(keyOf(sighting.ref), sighting);
  }
  counters.decodeSeconds += (performance.now() - startMs) / 1000;
}
