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

/** Where the value of an attribute begins and ends in a message's body. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The first attribute of that type between two places. For large dumps: it makes no views. */
export function attributeIn(
  view: DataView,
  within: Span | undefined,
  type: number,
): Span | undefined {
  if (within === undefined) return undefined;
  let at = within.from;
  while (at + ATTRIBUTE_HEADER <= within.to) {
    const length = view.getUint16(at, true);
    if (length < ATTRIBUTE_HEADER || at + length > within.to) return undefined;
    if ((view.getUint16(at + 2, true) & TYPE_MASK) === type)
      return { from: at + ATTRIBUTE_HEADER, to: at + length };
    at += aligned(length);
  }
  return undefined;
}

/** A request to list everything of a kind; `body` begins with that kind's fixed part. */
export const dumpRequest = (type: number, body: Uint8Array): Uint8Array =>
  request({ type, flags: DUMP }, body);

/** NLM_F_ACK: the kernel answers a success, too. */
export const ACKNOWLEDGE = 0x4;

/** @param flags besides NLM_F_REQUEST @param sequence which the answer repeats */
export function request(
  { type, flags, sequence = 0 }: { type: number; flags: number; sequence?: number },
  body: Uint8Array,
): Uint8Array {
  const bytes = new Uint8Array(HEADER + aligned(body.length));
  const view = viewOf(bytes);
  view.setUint32(0, HEADER + body.length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, REQUEST | flags, true);
  view.setUint32(8, sequence, true);
  bytes.set(body, HEADER);
  return bytes;
}

/** An attribute with its header, padded; `parts` are its value, or the attributes nested in it. */
export function attribute(type: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const value = joined(parts);
  const bytes = new Uint8Array(aligned(ATTRIBUTE_HEADER + value.length));
  const view = viewOf(bytes);
  view.setUint16(0, ATTRIBUTE_HEADER + value.length, true);
  view.setUint16(2, type, true);
  bytes.set(value, ATTRIBUTE_HEADER);
  return bytes;
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
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

export const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
