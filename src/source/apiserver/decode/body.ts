// SPDX-License-Identifier: Apache-2.0
// The bytes of an answer under a watchdog: TCP keepalive sees a dead host, but neither a frozen server nor
// a proxy that keeps a dead connection open.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../../lib/clock.ts';
import type { Counters } from '../counters.ts';
import { LIMITS } from '../limits.ts';
import type { Answer, Transport } from '../transport/transport.ts';
import { WatchError } from '../watch/watch-error.ts';

export interface BodyParts {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly counters: Counters;
}

/** How long nothing may come, and what it means if nothing does. */
export interface IdleTimeout {
  readonly silenceMs: number;
  readonly reason: 'silent' | 'late';
}

/**
 * Each chunk as it comes. The time the caller takes for a chunk is not counted as the server's silence;
 * while the caller works nothing is read, so a slow caller slows the server down, not memory up.
 * Throws what the connection throws; its server then makes way for the next.
 */
export async function* chunksOf(
  { transport, clock, counters }: BodyParts,
  { body, server }: Answer,
  request: AbortController,
  idleTimeout: () => IdleTimeout,
): AsyncGenerator<Uint8Array> {
  const expect = (): (() => void) => {
    const { silenceMs, reason } = idleTimeout();
    return clock.after(silenceMs, () => {
      if (reason === 'silent') transport.failed(server);
      request.abort(new WatchError(reason, `no byte for ${silenceMs / 1000} s`));
    });
  };
  let cancel = expect();
  let workedMs = 0;
  try {
    for await (const chunk of body) {
      cancel();
      counters.bytes += chunk.length;
      const startMs = performance.now();
      yield chunk;
      workedMs += performance.now() - startMs;
      if (workedMs > LIMITS.workMs) {
        // A full socket is read 32 times before anything else gets its turn.
        await nextTurn();
        workedMs = 0;
      }
      cancel = expect();
    }
  } catch (error) {
    if (!request.signal.aborted) transport.failed(server);
    throw error;
  } finally {
    cancel();
  }
}
