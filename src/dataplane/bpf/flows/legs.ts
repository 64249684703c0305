// SPDX-License-Identifier: Apache-2.0
// Values of the legs of flows: struct flow4, nat4, snat4 and those of IPv6 in bpf/packet/types.h, which says what
// each leg is for. Addresses stay bytes, because keys of other legs are made of them and a million are read at a time.
import type { Family } from '../../../model/types.ts';
import { FLOW_STATE, type FlowState, PACKET_SIZE } from '../maps/packet-layout.ts';
import type { Side } from './tuple.ts';

export const LEG_SIZE = {
  flow: { IPv4: PACKET_SIZE.flow4, IPv6: PACKET_SIZE.flow6 },
  nat: { IPv4: PACKET_SIZE.nat4, IPv6: PACKET_SIZE.nat6 },
  snat: { IPv4: PACKET_SIZE.snat4, IPv6: PACKET_SIZE.snat6 },
} as const;

const FLOW_STATES = Object.keys(FLOW_STATE) as readonly FlowState[];

export interface FlowLeg {
  readonly backendId: number;
  readonly serviceId: number;
  readonly frontendId: number;
  readonly seenSeconds: number;
  readonly bornSeconds: number;
  readonly packets: number;
  readonly bytes: number;
  readonly backend: Side;
  readonly generation: number;
  /** As the backend sees it, before SNAT. */
  readonly clientPort: number;
  readonly state: FlowState;
  readonly isMasqueraded: boolean;
  readonly hasFin: boolean;
  readonly hasReset: boolean;
  /** Its packets travel in Geneve to the backend's node: it has no other leg on this one. */
  readonly returnsDirectly?: boolean;
}

export interface NatLeg {
  readonly seenSeconds: number;
  readonly packets: number;
  readonly bytes: number;
  readonly frontend: Side;
  /** undefined: not masqueraded, or no packet has left yet. */
  readonly snat: Side | undefined;
  /** The client's own. */
  readonly clientPort: number;
  readonly isClientSource: boolean;
  readonly isMasqueraded: boolean;
  readonly hasReplied: boolean;
  readonly hasFin: boolean;
  readonly hasReset: boolean;
}

export interface SnatLeg {
  readonly seenSeconds: number;
  /** As in the key of the nat leg. */
  readonly client: Side;
  /** Both sides have ended the connection, by FINs. */
  readonly isInTimeWait: boolean;
  /** Its flow is gone: no other flow gets the port for some time. */
  readonly isReserved: boolean;
  /** The backend has sent something to it. */
  readonly isAnswered: boolean;
}

/** Of struct tcp_end. */
const END = { fin: 1, reset: 2, answered: 4, reserved: 8 } as const;
const CLIENT_END = 10;
const BACKEND_END = 11;

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Exact up to 2^53. */
const u64 = (view: DataView, at: number): number =>
  view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;

const addressAt = (bytes: Uint8Array, at: number, family: Family): Uint8Array =>
  bytes.subarray(at, at + (family === 'IPv4' ? 4 : 16));

export function decodeFlow(bytes: Uint8Array, family: Family): FlowLeg {
  const view = viewOf(bytes);
  const flags = view.getUint8(47);
  return {
    backendId: view.getUint32(4, true),
    serviceId: view.getUint32(8, true),
    frontendId: view.getUint32(12, true),
    seenSeconds: view.getUint32(16, true),
    bornSeconds: view.getUint32(20, true),
    packets: u64(view, 24),
    bytes: u64(view, 32),
    backend: {
      address: addressAt(bytes, PACKET_SIZE.flow, family),
      port: view.getUint16(40, true),
    },
    generation: view.getUint16(42, true),
    clientPort: view.getUint16(44, true),
    state: FLOW_STATES[view.getUint8(46)] ?? 'new',
    isMasqueraded: (flags & 1) !== 0,
    hasFin: (flags & 2) !== 0,
    hasReset: (flags & 4) !== 0,
    ...((flags & 16) !== 0 && { returnsDirectly: true }),
  };
}

export function decodeNat(bytes: Uint8Array, family: Family): NatLeg {
  const view = viewOf(bytes);
  const flags = view.getUint8(30);
  const snatPort = view.getUint16(26, true);
  const snatAt = PACKET_SIZE.nat + (family === 'IPv4' ? 4 : 16);
  return {
    seenSeconds: view.getUint32(4, true),
    packets: u64(view, 8),
    bytes: u64(view, 16),
    frontend: {
      address: addressAt(bytes, PACKET_SIZE.nat, family),
      port: view.getUint16(24, true),
    },
    snat:
      snatPort === 0 ? undefined : { address: addressAt(bytes, snatAt, family), port: snatPort },
    clientPort: view.getUint16(28, true),
    isClientSource: (flags & 1) !== 0,
    isMasqueraded: (flags & 2) !== 0,
    hasReplied: (flags & 4) !== 0,
    hasFin: (flags & 8) !== 0,
    hasReset: (flags & 16) !== 0,
  };
}

export function decodeSnat(bytes: Uint8Array, family: Family): SnatLeg {
  const view = viewOf(bytes);
  const client = view.getUint8(CLIENT_END);
  const backend = view.getUint8(BACKEND_END);
  return {
    seenSeconds: view.getUint32(4, true),
    client: {
      address: addressAt(bytes, PACKET_SIZE.snat, family),
      port: view.getUint16(8, true),
    },
    isInTimeWait: (client & backend & END.fin) !== 0 && ((client | backend) & END.reset) === 0,
    isReserved: (client & END.reserved) !== 0,
    isAnswered: (backend & END.answered) !== 0,
  };
}

/** The value of a leg that is left to reserve its port. */
export function reservedSnat(value: Uint8Array): Uint8Array {
  const copy = value.slice();
  copy[CLIENT_END] = (copy[CLIENT_END] ?? 0) | END.reserved;
  return copy;
}
