// SPDX-License-Identifier: Apache-2.0
// Entries of the kernel's connection tracking, as ctnetlink describes them (linux/netfilter/nfnetlink_conntrack.h):
// requests to list and to delete them, and what the answers say. Pure.
import { addressText } from '../../lib/address-bytes.ts';
import {
  ACKNOWLEDGE,
  attribute,
  attributeIn,
  dumpRequest,
  joined,
  type Message,
  request,
  type Span,
  viewOf,
} from '../netlink/wire.ts';

export type TrackedFamily = 'IPv4' | 'IPv6';
export type TrackedProtocol = 'TCP' | 'UDP' | 'SCTP';

/** By the first packet: `destination` is what the client dialled, `replySource` where the answers come from. */
export interface ConntrackEntry {
  readonly protocol: TrackedProtocol;
  readonly destination: string;
  readonly destinationPort: number;
  readonly replySource: string;
  readonly replySourcePort: number;
  /** The attributes that identify it, as the kernel sent them. */
  readonly identity: Uint8Array;
}

/** Which entries are worth reading, before their addresses are. */
export type WantsEntry = (protocol: TrackedProtocol, destinationPort: number) => boolean;

/** NFNL_SUBSYS_CTNETLINK << 8, with the message's number. */
const GET = 0x101;
const DELETE = 0x102;
export const NEW_ENTRY = 0x100;

const CTA = { TUPLE_ORIG: 1, TUPLE_REPLY: 2, ID: 12, ZONE: 18 };
const CTA_TUPLE = { IP: 1, PROTO: 2 };
const CTA_IP = { V4_SRC: 1, V4_DST: 2, V6_SRC: 3, V6_DST: 4 };
const CTA_PROTO = { NUM: 1, SRC_PORT: 2, DST_PORT: 3 };

const PROTOCOLS: ReadonlyMap<number, TrackedProtocol> = new Map([
  [6, 'TCP'],
  [17, 'UDP'],
  [132, 'SCTP'],
]);
/** `struct nfgenmsg`. */
const HEADER_SIZE = 4;
const header = (family: TrackedFamily): Uint8Array =>
  Uint8Array.of(family === 'IPv4' ? 2 : 10, 0, 0, 0);

/** Of all protocols: while the kernel skips those of others, it delays the packets of a CPU (ADR 24). */
export const dumpOf = (family: TrackedFamily): Uint8Array => dumpRequest(GET, header(family));

/**
 * Without CTA_TUPLE_ORIG the kernel would delete all entries: every `identity` has it. With CTA_ID it deletes no later
 * entry of the same addresses.
 */
export function deletionOf(
  { destination, identity }: ConntrackEntry,
  sequence: number,
): Uint8Array {
  const family = destination.includes(':') ? 'IPv6' : 'IPv4';
  const body = joined([header(family), identity]);
  return request({ type: DELETE, flags: ACKNOWLEDGE, sequence }, body);
}

/** Undefined: unwanted, or without ports. */
export function entryOf({ type, body }: Message, wants: WantsEntry): ConntrackEntry | undefined {
  if (type !== NEW_ENTRY) return undefined;
  const view = viewOf(body);
  const all: Span = { from: HEADER_SIZE, to: body.length };
  const original = attributeIn(view, all, CTA.TUPLE_ORIG);
  const ports = attributeIn(view, original, CTA_TUPLE.PROTO);
  const number = attributeIn(view, ports, CTA_PROTO.NUM);
  const destinationPort = portAt(view, attributeIn(view, ports, CTA_PROTO.DST_PORT));
  const protocol = number === undefined ? undefined : PROTOCOLS.get(view.getUint8(number.from));
  if (protocol === undefined || destinationPort === undefined) return undefined;
  if (!wants(protocol, destinationPort)) return undefined;
  const reply = attributeIn(view, all, CTA.TUPLE_REPLY);
  const replyPorts = attributeIn(view, reply, CTA_TUPLE.PROTO);
  const replySourcePort = portAt(view, attributeIn(view, replyPorts, CTA_PROTO.SRC_PORT));
  const destination = addressIn(body, original, [CTA_IP.V4_DST, CTA_IP.V6_DST]);
  const replySource = addressIn(body, reply, [CTA_IP.V4_SRC, CTA_IP.V6_SRC]);
  if (destination === undefined || replySource === undefined || replySourcePort === undefined)
    return undefined;
  const identity = identityIn(body, all);
  return { protocol, destination, destinationPort, replySource, replySourcePort, identity };
}

const portAt = (view: DataView, value: Span | undefined): number | undefined =>
  value === undefined || value.to - value.from < 2 ? undefined : view.getUint16(value.from);

function addressIn(
  body: Uint8Array,
  tuple: Span | undefined,
  types: readonly number[],
): string | undefined {
  const view = viewOf(body);
  const addresses = attributeIn(view, tuple, CTA_TUPLE.IP);
  for (const type of types) {
    const value = attributeIn(view, addresses, type);
    if (value !== undefined) return addressText(body.subarray(value.from, value.to));
  }
  return undefined;
}

function identityIn(body: Uint8Array, all: Span): Uint8Array {
  const view = viewOf(body);
  const values = [CTA.TUPLE_ORIG, CTA.ZONE, CTA.ID].flatMap((type) => {
    const value = attributeIn(view, all, type);
    return value === undefined ? [] : [attribute(type, body.subarray(value.from, value.to))];
  });
  return joined(values);
}
