// SPDX-License-Identifier: Apache-2.0
// Events of the addon's relay, and answers to its questions: their bytes, as native/types/network.d.ts has them. Pure.
import { getSystemErrorName } from 'node:util';
import { addressText, writeAddress } from '../../../lib/address-bytes.ts';
import type { Backend } from '../../../plan/types.ts';

const EVENT_BYTES = 32;
const ANSWER_BYTES = 88;

/** For the bytes that a backend gets first. */
export const MOST_FIRST_BYTES = 56;

const KINDS = { 1: 'asked', 2: 'ended', 3: 'shed' } as const;

export interface RelayEvent {
  /** `asked`: a connection asks for a backend; `ended`: one that got one; `shed`: one was reset for lack of files. */
  readonly kind: (typeof KINDS)[keyof typeof KINDS];
  /** Its number, which another one gets after its end. */
  readonly connection: number;
  readonly listener: number;
  /** Canonical; empty unless it asks. */
  readonly client: string;
  readonly clientPort: number;
  /** `ended`: why there was no connection to the backend, as `EMFILE`; else empty. */
  readonly error: string;
}

/** @param bytes at the start of a buffer of their own */
export function relayEvents(bytes: Uint8Array): readonly RelayEvent[] {
  const shorts = new Uint16Array(bytes.buffer);
  const words = new Uint32Array(bytes.buffer);
  const events: RelayEvent[] = [];
  for (let at = 0; at < bytes.length; at += EVENT_BYTES) {
    const kind = KINDS[bytes[at] as keyof typeof KINDS];
    const size = bytes[at + 1] === 4 ? 4 : 16;
    events.push({
      kind,
      connection: words[at / 4 + 1] ?? 0,
      listener: words[at / 4 + 2] ?? 0,
      client: kind === 'asked' ? addressText(bytes.subarray(at + 16, at + 16 + size)) : '',
      clientPort: shorts[at / 2 + 1] ?? 0,
      error: nameOf(words[at / 4 + 3] ?? 0),
    });
  }
  return events;
}

const nameOf = (errno: number): string => (errno === 0 ? '' : getSystemErrorName(-errno));

export interface RelayAnswer {
  readonly connection: number;
  /** undefined: the client is reset. */
  readonly backend: Backend | undefined;
  /** What the backend gets before the client's bytes. */
  readonly first?: Uint8Array | undefined;
}

export function relayAnswers(answers: readonly RelayAnswer[]): Uint8Array {
  const bytes = new Uint8Array(answers.length * ANSWER_BYTES);
  const shorts = new Uint16Array(bytes.buffer);
  const words = new Uint32Array(bytes.buffer);
  for (const [index, { connection, backend, first }] of answers.entries()) {
    const at = index * ANSWER_BYTES;
    words[at / 4 + 1] = connection;
    if (backend === undefined) continue;
    const family = backend.address.includes(':') ? 'IPv6' : 'IPv4';
    bytes[at] = 1;
    bytes[at + 1] = family === 'IPv4' ? 4 : 6;
    shorts[at / 2 + 1] = backend.port;
    writeAddress(bytes, at + 8, backend.address, family);
    if (first === undefined) continue;
    bytes[at + 24] = first.length;
    bytes.set(first, at + 32);
  }
  return bytes;
}
