// SPDX-License-Identifier: Apache-2.0
// Bodies that arrive faster than they can be read must not block the event loop.
import { expect, test } from 'vitest';
import { createCounters } from '../../../../../src/source/apiserver/counters.ts';
import { chunksOf } from '../../../../../src/source/apiserver/decode/body.ts';
import type { Transport } from '../../../../../src/source/apiserver/transport/transport.ts';
import { FakeClock } from '../support/fake-clock.ts';

const CHUNKS = 40;
const WORK_MS = 2;

/** Everything is there already, as in a full socket. */
async function* fullSocket(): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < CHUNKS; index += 1) yield new Uint8Array(10);
}

const transport: Transport = {
  get: () => Promise.reject(new Error('not asked')),
  json: () => Promise.reject(new Error('not asked')),
  post: () => Promise.reject(new Error('not asked')),
  patch: () => Promise.reject(new Error('not asked')),
  failed: () => undefined,
  unauthorized: () => 0,
  close: () => Promise.resolve(),
};

test('other work runs between the chunks of a body that has arrived completely', async () => {
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const counters = createCounters();
  const chunks = chunksOf(
    { transport, clock: new FakeClock(), counters },
    { body: fullSocket(), server: { url: 'http://a', tlsName: undefined } },
    new AbortController(),
    () => ({ silenceMs: 1_000, reason: 'silent' }),
  );
  for await (const chunk of chunks) {
    const endMs = performance.now() + WORK_MS * (chunk.length / 10);
    while (performance.now() < endMs);
  }
  isDone = true;
  expect(turns).toBeGreaterThanOrEqual((CHUNKS * WORK_MS) / 10);
  expect(counters.bytes).toBe(CHUNKS * 10);
});
