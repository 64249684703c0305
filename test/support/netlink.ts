// SPDX-License-Identifier: Apache-2.0
// Builds rtnetlink messages as the kernel sends them, and a socket that delivers them.
import { addressBytes } from '../../src/lib/address-bytes.ts';
import type { OpenSocket } from '../../src/sys/netlink/follow.ts';

export const RTM = { NEWLINK: 16, DELLINK: 17, NEWADDR: 20, DELADDR: 21 } as const;
const DONE = 3;

const aligned = (length: number): number => (length + 3) & ~3;
const u16 = (value: number): number[] => [value & 0xff, (value >> 8) & 0xff];
export const u32 = (value: number): number[] => [...u16(value), ...u16(value >>> 16)];
const text = (value: string): number[] => [...new TextEncoder().encode(value), 0];

/** Header and payload, padded to four bytes. */
export function attribute(type: number, payload: readonly number[]): number[] {
  const length = 4 + payload.length;
  const padding = aligned(length) - length;
  return [...u16(length), ...u16(type), ...payload, ...Array(padding).fill(0)];
}

export function message(type: number, body: readonly number[], flags = 0): Uint8Array {
  const header = [...u32(16 + body.length), ...u16(type), ...u16(flags), ...u32(0), ...u32(0)];
  return Uint8Array.from([...header, ...body]);
}

export interface LinkSpec {
  readonly ifindex: number;
  readonly name: string;
  readonly type?: number;
  readonly flags?: number;
  readonly kind?: string;
  readonly master?: number;
  readonly peerNamespace?: number;
  readonly family?: number;
  readonly isWireless?: boolean;
  /** What its kind has, IFLA_INFO_DATA. */
  readonly data?: readonly number[];
}

export function linkMessage(spec: LinkSpec, type: number = RTM.NEWLINK, flags = 0): Uint8Array {
  const { family = 0, ifindex, name } = spec;
  const body = [family, 0, ...u16(spec.type ?? 1), ...u32(ifindex), ...u32(spec.flags ?? 1)];
  const { kind, master, peerNamespace, isWireless = false, data = [] } = spec;
  const info = [...attribute(1, text(kind ?? '')), ...(data.length > 0 ? attribute(2, data) : [])];
  return message(
    type,
    [
      ...body,
      ...u32(0),
      ...attribute(3, text(name)),
      ...(master === undefined ? [] : attribute(10, u32(master))),
      // NLA_F_NESTED, as the kernel sets it on some.
      ...(kind === undefined ? [] : attribute(18 | 0x8000, info)),
      ...(peerNamespace === undefined ? [] : attribute(37, u32(peerNamespace))),
      ...(isWireless ? attribute(11, [1]) : []),
    ],
    flags,
  );
}

export interface AddressSpec {
  readonly ifindex: number;
  readonly address: string;
  readonly prefixLength?: number;
  readonly scope?: number;
  readonly flags?: number;
  /** Of a point-to-point device. */
  readonly peer?: string;
}

export function addressMessage(spec: AddressSpec, type: number = RTM.NEWADDR): Uint8Array {
  const { ifindex, address, scope = 0, flags = 0, peer } = spec;
  const family = address.includes(':') ? 'IPv6' : 'IPv4';
  const bytes = [...addressBytes(address, family)];
  const other = [...addressBytes(peer ?? address, family)];
  const prefixLength = spec.prefixLength ?? (family === 'IPv4' ? 24 : 64);
  return message(type, [
    family === 'IPv4' ? 2 : 10,
    prefixLength,
    flags & 0xff,
    scope,
    ...u32(ifindex),
    ...attribute(1, other),
    ...(family === 'IPv4' || peer !== undefined ? attribute(2, bytes) : []),
    ...attribute(8, u32(flags)),
  ]);
}

/** One datagram. */
export function joined(...messages: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(messages.flatMap((one) => [...one]));
}

/** A kernel whose tables are lists of messages. */
export interface FakeKernel {
  readonly links: Uint8Array[];
  readonly addresses: Uint8Array[];
  /** Sent before each answer to a dump ends; taken from the front. */
  readonly flagsOfDumps: number[];
  readonly open: OpenSocket;
  /** Queues a datagram, or the loss of some, for the next `deliver`. */
  queue(datagram: Uint8Array | 'overrun'): void;
  /** Calls back as the event loop does. */
  deliver(): void;
  /** Dumps so far, and sockets that are open. */
  readonly counts: { dumps: number; open: number };
}

export function fakeKernel(): FakeKernel {
  const queue: (Uint8Array | 'overrun')[] = [];
  const counts = { dumps: 0, open: 0 };
  let onReadable: () => void = () => undefined;
  const kernel: FakeKernel = {
    links: [],
    addresses: [],
    flagsOfDumps: [],
    counts,
    queue: (datagram) => void queue.push(datagram),
    deliver: () => onReadable(),
    open(_options, callback) {
      counts.open++;
      const own = callback === undefined ? [] : queue;
      if (callback !== undefined) onReadable = callback;
      return {
        send(request) {
          counts.dumps++;
          const isLinks = request[4] === 18;
          const done = message(DONE, u32(0), kernel.flagsOfDumps.shift() ?? 0);
          own.push(...(isLinks ? kernel.links : kernel.addresses), done);
        },
        receive() {
          const next = own.shift();
          if (next === 'overrun') throw Object.assign(new Error('overrun'), { code: 'ENOBUFS' });
          return next;
        },
        close: () => void counts.open--,
      };
    },
  };
  return kernel;
}
