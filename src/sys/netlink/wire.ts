// SPDX-License-Identifier: Apache-2.0
// The wire format of netlink (netlink(7)): messages of a datagram, attributes of a message, requests. Host
// byte order, which is little-endian on every architecture that fairlead is built for. Pure.

/** `struct nlmsghdr` without its length, and what follows it. */
export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly body: Uint8Array;
}

const HEADER = 16;
const ATTRIBUTE_HEADER = 4;
/** NLA_F_NESTED and NLA_F_NET_BYTEORDER are flags in an attribute's type. */
const TYPE_MASK = 0x3fff;

/** NLM_F_DUMP_INTR: the kernel's table changed during the dump, which may lack entries. */
export const DUMP_INTERRUPTED = 0x10;
export const ERROR_MESSAGE = 2;
export const DONE_MESSAGE = 3;

const REQUEST = 0x1;
const DUMP = 0x300;

/** Ends at the first malformed header: what follows cannot be delimited. */
export function* messagesIn(datagram: Uint8Array): Generator<Message> {
  const view = viewOf(datagram);
  let at = 0;
  while (at + HEADER <= datagram.length) {
    const length = view.getUint32(at, true);
    if (length < HEADER || at + length > datagram.length) return;
    yield {
      type: view.getUint16(at + 4, true),
      flags: view.getUint16(at + 6, true),
      body: datagram.subarray(at + HEADER, at + length),
    };
    at += aligned(length);
  }
}

/**
 * Those of the wanted types; the last one of a type counts. A device has forty others: views of them take more time
 * than all the rest. `from`: the size of the fixed part before them.
 */
export function attributesIn(
  body: Uint8Array,
  from: number,
  wanted: readonly number[],
): ReadonlyMap<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  const view = viewOf(body);
  let at = from;
  while (at + ATTRIBUTE_HEADER <= body.length) {
    const length = view.getUint16(at, true);
    if (length < ATTRIBUTE_HEADER || at + length > body.length) break;
    const type = view.getUint16(at + 2, true) & TYPE_MASK;
    if (wanted.includes(type)) found.set(type, body.subarray(at + ATTRIBUTE_HEADER, at + length));
    at += aligned(length);
  }
  return found;
}

/** A request to list everything of a kind; `body` begins with that kind's fixed part. */
export function dumpRequest(type: number, body: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(HEADER + body.length);
  const view = viewOf(bytes);
  view.setUint32(0, bytes.length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, REQUEST | DUMP, true);
  bytes.set(body, HEADER);
  return bytes;
}

/** undefined if the attribute is missing or too short. */
export function u32(bytes: Uint8Array | undefined, at = 0): number | undefined {
  if (bytes === undefined || bytes.length < at + 4) return undefined;
  return viewOf(bytes).getUint32(at, true);
}

/** Text up to the first NUL. */
export function text(bytes: Uint8Array | undefined): string | undefined {
  if (bytes === undefined) return undefined;
  const end = bytes.indexOf(0);
  return DECODER.decode(end < 0 ? bytes : bytes.subarray(0, end));
}

const DECODER = new TextDecoder();

const aligned = (length: number): number => (length + 3) & ~3;

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
