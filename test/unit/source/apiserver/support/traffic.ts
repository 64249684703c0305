// SPDX-License-Identifier: Apache-2.0
// Whether anything is on its way between the clients and the fake API servers of this process. Both ends are
// here, so it can be known instead of waited for: what each client has asked, from undici's diagnostics
// channels, against what each server keeps open on purpose.
import { subscribe } from 'node:diagnostics_channel';
import { setImmediate as nextTurn } from 'node:timers/promises';

export interface Serving {
  readonly url: string;
  /** Requests that a test leaves without an answer. */
  unanswered(): number;
  /** Answers that go on: watches, and bodies that a test has not ended. */
  streaming(): number;
}

interface Request {
  readonly origin?: string | URL;
}

const serving = new Set<Serving>();
/** Requests that have not ended, and whether their headers have come. */
const requests = new Map<Request, 'sent' | 'answered'>();
let events = 0;

function follow(channel: string, note: (request: Request) => void): void {
  subscribe(`undici:request:${channel}`, (message) => {
    events += 1;
    note((message as { readonly request: Request }).request);
  });
}

follow('create', (request) => requests.set(request, 'sent'));
follow('headers', (request) => requests.set(request, 'answered'));
follow('bodyChunkReceived', () => undefined);
follow('trailers', (request) => requests.delete(request));
follow('error', (request) => requests.delete(request));

export function serves(server: Serving): () => void {
  serving.add(server);
  return () => serving.delete(server);
}

/** Turns of the event loop without news after which nothing is left in it. */
const QUIET_TURNS = 12;
/**
 * What a server does to a body half-way shows in no count: then nothing happening for this long must do. In turns as well: on
 * a machine with other work the time may pass in a single one.
 */
const SILENT_MS = 60;
const SILENT_TURNS = 200;

function isBalanced(server: Serving): boolean {
  const states = [...requests]
    .filter(([{ origin }]) => String(origin) === server.url)
    .map(([, state]) => state);
  const answered = states.filter((state) => state === 'answered').length;
  return answered === server.streaming() && states.length - answered === server.unanswered();
}

/** Resolves when all that was asked is answered, seen and acted on. */
export async function idle(): Promise<void> {
  let quietTurns = 0;
  let seen = events;
  let sinceMs = performance.now();
  let silentTurns = 0;
  while (quietTurns < QUIET_TURNS) {
    await nextTurn();
    silentTurns += 1;
    if (events !== seen) [sinceMs, silentTurns] = [performance.now(), 0];
    const isQuiet = events === seen && [...serving].every(isBalanced);
    quietTurns = isQuiet ? quietTurns + 1 : 0;
    seen = events;
    if (silentTurns > SILENT_TURNS && performance.now() - sinceMs > SILENT_MS) return;
  }
}
