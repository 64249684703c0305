// SPDX-License-Identifier: Apache-2.0
// One watch connection: lines -> events, all that came in one chunk together.
import { type BodyParts, chunksOf, type IdleTimeout } from '../decode/body.ts';
import { createLineSplitter } from '../decode/lines.ts';
import type { Decoder, WatchEvent } from '../decode/watch-events.ts';
import { LIMITS } from '../limits.ts';
import { WatchError } from './watch-error.ts';

export interface WatchParts extends BodyParts {
  readonly decoder: Decoder;
}

export interface WatchRequest {
  readonly path: string;
  readonly request: AbortController;
  /** Asked again after each chunk. */
  readonly idleTimeout: () => IdleTimeout;
  /** The server has accepted the watch. */
  readonly onOpen: () => void;
}

/**
 * Ends without an error when the server ended the stream after a whole event. Throws as Transport does,
 * WatchError `broken` if the stream was cut inside an event, SyntaxError for a line that is no JSON. A stream
 * that ends too soon counts against its server.
 */
export async function* watchBatches(
  parts: WatchParts,
  { path, request, idleTimeout, onOpen }: WatchRequest,
): AsyncGenerator<readonly WatchEvent[]> {
  const { transport, clock, counters, decoder } = parts;
  const answer = await transport.get(path, request);
  onOpen();
  const openedMs = clock.monotonicMs();
  const splitter = createLineSplitter();
  for await (const chunk of chunksOf(parts, answer, request, idleTimeout)) {
    const startMs = performance.now();
    const events = splitter.push(chunk).map((line) => decoder.event(line));
    counters.decodeSeconds += (performance.now() - startMs) / 1000;
    for (const { type } of events) counters.events[type] += 1;
    if (events.length > 0) yield events;
  }
  if (clock.monotonicMs() - openedMs < LIMITS.shortLifeMs) transport.failed(answer.server);
  if (splitter.pendingBytes() > 0)
    throw new WatchError('broken', 'the stream was cut inside an event');
}
