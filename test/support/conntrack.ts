// SPDX-License-Identifier: Apache-2.0
// Entries of connection tracking for tests: as the kernel describes them, and as it is asked to make them.
import { addressBytes } from '../../src/lib/address-bytes.ts';
import { ACKNOWLEDGE, attribute, joined, request } from '../../src/sys/netlink/wire.ts';

export interface TrackedFlow {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly destinationPort: number;
  /** Where answers come from; absent: nothing was translated. */
  readonly backend?: string;
  readonly backendPort?: number;
  readonly id?: number;
  readonly zone?: number;
}

const NUMBERS = { TCP: 6, UDP: 17, SCTP: 132 } as const;
const NEW_ENTRY = 0x100;
const CREATE = 0x400;
const CTA = { ORIG: 1, REPLY: 2, STATUS: 3, PROTOINFO: 4, TIMEOUT: 7, ID: 12, ZONE: 18 };
/** IPS_CONFIRMED, IPS_SEEN_REPLY and IPS_ASSURED. */
const STATUS = 0x8 | 0x2 | 0x4;
const LASTS_S = 600;

const be16 = (value: number): Uint8Array => Uint8Array.of(value >> 8, value & 0xff);
const be32 = (value: number): Uint8Array =>
  Uint8Array.of(value >>> 24, (value >> 16) & 0xff, (value >> 8) & 0xff, value & 0xff);

interface End {
  readonly address: string;
  readonly port: number;
}

function tuple(type: number, protocol: TrackedFlow['protocol'], from: End, to: End): Uint8Array {
  const isV6 = to.address.includes(':');
  const bytes = ({ address }: End): Uint8Array => addressBytes(address, isV6 ? 'IPv6' : 'IPv4');
  const [source, destination] = isV6 ? [3, 4] : [1, 2];
  return attribute(
    type,
    attribute(1, attribute(source, bytes(from)), attribute(destination, bytes(to))),
    attribute(
      2,
      attribute(1, Uint8Array.of(NUMBERS[protocol])),
      attribute(2, be16(from.port)),
      attribute(3, be16(to.port)),
    ),
  );
}

/** The body of a message about it. */
function entryBody(flow: TrackedFlow): Uint8Array {
  const { protocol, destination, destinationPort, id, zone } = flow;
  const client = { address: flow.source, port: flow.sourcePort };
  const frontend = { address: destination, port: destinationPort };
  const answering = {
    address: flow.backend ?? destination,
    port: flow.backendPort ?? destinationPort,
  };
  return joined([
    Uint8Array.of(destination.includes(':') ? 10 : 2, 0, 0, 0),
    tuple(CTA.ORIG, protocol, client, frontend),
    tuple(CTA.REPLY, protocol, answering, client),
    attribute(CTA.STATUS, be32(STATUS)),
    attribute(CTA.TIMEOUT, be32(LASTS_S)),
    // TCP and SCTP: established.
    ...(protocol === 'TCP'
      ? [attribute(CTA.PROTOINFO, attribute(1, attribute(1, Uint8Array.of(3))))]
      : []),
    ...(protocol === 'SCTP' ? [attribute(CTA.PROTOINFO, sctpEstablished())] : []),
    ...(id === undefined ? [] : [attribute(CTA.ID, be32(id))]),
    ...(zone === undefined ? [] : [attribute(CTA.ZONE, be16(zone))]),
  ]);
}

const sctpEstablished = (): Uint8Array =>
  attribute(3, attribute(1, Uint8Array.of(4)), attribute(2, be32(1)), attribute(3, be32(2)));

/** As the kernel sends it in a dump. */
export const entryMessage = (flow: TrackedFlow, flags = 0): Uint8Array => {
  const bytes = request({ type: NEW_ENTRY, flags: 0 }, entryBody(flow));
  new DataView(bytes.buffer).setUint16(6, flags, true);
  return bytes;
};

/** NLMSG_ERROR (2) or NLMSG_DONE (3) with an errno, 0 = success. */
export function endMessage(type: 2 | 3, errno = 0): Uint8Array {
  const body = new Uint8Array(20);
  new DataView(body.buffer).setInt32(0, -errno, true);
  return request({ type, flags: 0 }, body);
}

/** Adds it to the table of the network namespace that it is sent in. */
export const trackRequest = (flow: TrackedFlow): Uint8Array =>
  request({ type: NEW_ENTRY, flags: ACKNOWLEDGE | CREATE }, entryBody(flow));
