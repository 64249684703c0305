// SPDX-License-Identifier: Apache-2.0
// Connects stale UDP sockets again, to the Service that their programs connected them to: the connect hook then gives them
// another backend, and their programs notice nothing. Each by a descriptor of a process that has it, which
// bpf/socket/stale/holders.bpf.c finds (Linux 5.12).
import { readlinkSync } from 'node:fs';
import { addressBytes } from '../../../../lib/address-bytes.ts';
import { type BpfProgram, connectSockets, readIterator } from '../../../../sys/native.ts';
import {
  type ConnectAgain,
  type ConnectOutcome,
  MAX_AT_ONCE,
} from '../../stale-sockets/keeping.ts';
import type { StaleSocket } from '../../stale-sockets/socket.ts';
import type { Loaded } from '../loader/load.ts';
import { part } from './finder.ts';

export const HOLDERS_OBJECT = 'holders.bpf.o';

export const HOLDER_SIZE = 16;
/** Offsets in struct holder. */
export const HOLDER_AT = { cookie: 0, process: 8, descriptor: 12 } as const;

/** A descriptor by which a process has a socket. */
export interface Holder {
  readonly process: number;
  readonly descriptor: number;
}

export const byHolders =
  ({ maps, programs }: Pick<Loaded, 'maps' | 'programs'>): ConnectAgain =>
  async (sockets) => {
    const asked = part(maps, 'fl_asked');
    const keys = new Uint8Array(BigUint64Array.from(sockets, ({ cookie }) => cookie).buffer);
    const { error } = asked.putBatch(keys, new Uint8Array(4 * sockets.length));
    if (error !== undefined) throw error;
    const holders = await findHolders(part(programs, 'fl_find_holders')).finally(() =>
      asked.deleteBatch(keys),
    );
    const held = sockets.flatMap((socket) => {
      const holder = holders.get(socket.cookie);
      return holder === undefined ? [] : [{ socket, holder }];
    });
    const errors = await connectSockets(encodeConnectRequests(held));
    const outcomes = new Map(
      held.map(({ socket }, index) => [socket.cookie, connectOutcome(errors[index])]),
    );
    return sockets.map(({ cookie }) => outcomes.get(cookie) ?? 'gone');
  };

async function findHolders(program: BpfProgram): Promise<ReadonlyMap<bigint, Holder>> {
  const { bytes } = await readIterator(program, { maxBytes: MAX_AT_ONCE * HOLDER_SIZE });
  return decodeHolders(bytes);
}

/** By cookie. */
export function decodeHolders(bytes: Uint8Array): ReadonlyMap<bigint, Holder> {
  const at = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const holders = new Map<bigint, Holder>();
  for (let from = 0; from + HOLDER_SIZE <= bytes.length; from += HOLDER_SIZE) {
    holders.set(at.getBigUint64(from + HOLDER_AT.cookie, true), {
      process: at.getUint32(from + HOLDER_AT.process, true),
      descriptor: at.getUint32(from + HOLDER_AT.descriptor, true),
    });
  }
  return holders;
}

const REQUEST_SIZE = 48;
const AF_INET = 2;
const AF_INET6 = 10;
/** Of struct sockaddr_in and sockaddr_in6, which begin at 16. */
const REQUEST_AT = { process: 8, descriptor: 12, family: 16, port: 18, ipv4: 20, ipv6: 24 };

/** As connectSockets() of the addon takes them: an IPv6 socket to an IPv4 Service has a v4-mapped address. */
export function encodeConnectRequests(
  held: readonly { readonly socket: StaleSocket; readonly holder: Holder }[],
): Uint8Array {
  const bytes = new Uint8Array(held.length * REQUEST_SIZE);
  for (const [index, { socket, holder }] of held.entries()) {
    const { cookie, socketFamily, service } = socket;
    const start = index * REQUEST_SIZE;
    const at = new DataView(bytes.buffer, start, REQUEST_SIZE);
    at.setBigUint64(0, cookie, true);
    at.setUint32(REQUEST_AT.process, holder.process, true);
    at.setUint32(REQUEST_AT.descriptor, holder.descriptor, true);
    at.setUint16(REQUEST_AT.family, socketFamily === 'IPv4' ? AF_INET : AF_INET6, true);
    at.setUint16(REQUEST_AT.port, service.port ?? 0);
    const address = addressBytes(service.address, service.family);
    if (socketFamily === 'IPv4') bytes.set(address, start + REQUEST_AT.ipv4);
    else if (service.family === 'IPv6') bytes.set(address, start + REQUEST_AT.ipv6);
    else bytes.set([0xff, 0xff, ...address], start + REQUEST_AT.ipv6 + 10);
  }
  return bytes;
}

/** What the connect hook fails with where it refuses or drops, before and from Linux 6.1. */
const REFUSALS: readonly string[] = ['connect: ECONNREFUSED', 'connect: EPERM'];

/** What a security module fails with, before the hook is asked. */
const FORBIDDEN = 'connect: EACCES';

/** The hook has let pass what failed without a refusal: there is no route to the backend that it has chosen. */
export function connectOutcome(failure: string | undefined): ConnectOutcome {
  if (failure === undefined) return 'connected';
  if (REFUSALS.includes(failure)) return 'refused';
  if (failure === FORBIDDEN) return 'gone';
  return failure.startsWith('connect: ') ? 'failed' : 'gone';
}

/** Of the first PID namespace, in which the kernel numbers the processes of holders. */
const FIRST_PIDS = 'pid:[4026531836]';

/** kthreadd. */
const KERNEL_THREAD = 2;

/** Why descriptors of other processes cannot be had; undefined: they can. */
export async function reasonOfNoHolders(): Promise<string | undefined> {
  if (readlinkSync('/proc/self/ns/pid') !== FIRST_PIDS) {
    return 'the agent does not see the processes of the node (hostPID)';
  }
  // A thread of the kernel, which has no descriptors and all capabilities: ENOENT, or what the kernel has against it.
  const bytes = new Uint8Array(REQUEST_SIZE);
  new DataView(bytes.buffer).setUint32(REQUEST_AT.process, KERNEL_THREAD, true);
  const [failure] = await connectSockets(bytes);
  if (failure === 'ENOENT') return undefined;
  return failure === 'pidfd_getfd: EPERM' ? 'CAP_SYS_PTRACE is missing' : failure;
}
