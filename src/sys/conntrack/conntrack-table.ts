// SPDX-License-Identifier: Apache-2.0
// The kernel's table of tracked connections, of this process's network namespace, over ctnetlink. A table may have a
// million entries: it is read a datagram at a time, on a thread of the pool, and never held as a whole.
import { getSystemErrorName } from 'node:util';
import * as native from '../native.ts';
import {
  DONE_MESSAGE,
  DUMP_INTERRUPTED,
  ERROR_MESSAGE,
  joined,
  type Message,
  messagesIn,
  u32,
} from '../netlink/wire.ts';
import {
  type ConntrackEntry,
  deletionOf,
  dumpOf,
  entryOf,
  NEW_ENTRY,
  type TrackedFamily,
  type WantsEntry,
} from './entry.ts';

type Socket = Pick<native.NetlinkSocket, 'exchange' | 'receive' | 'close'>;
/** The socket as the addon offers it. */
export type OpenConntrackSocket = (options: { protocol: number }) => Socket;

export interface ConntrackQuery {
  readonly family: TrackedFamily;
  readonly wants: WantsEntry;
}

export interface ConntrackDump {
  /** Entries of the family. */
  readonly entries: number;
  /** False: the table changed too much meanwhile, or memory was short, so that entries may be missing. */
  readonly isWhole: boolean;
}

const NETLINK_NETFILTER = 12;
/** Their acknowledgements fit into a socket's buffer of any size that systems have by default. */
const DELETIONS_AT_ONCE = 64;
/** Of a dump, these only mean that it has ended too early. */
const INTERRUPTIONS: readonly (string | undefined)[] = ['EINTR', 'ENOBUFS'];

/** Rejects with an errno's name as `code` if the kernel refuses. @param onEntries receives the wanted ones */
export async function readConntrack(
  query: ConntrackQuery,
  onEntries: (entries: readonly ConntrackEntry[]) => Promise<void>,
  open: OpenConntrackSocket = native.openNetlink,
): Promise<ConntrackDump> {
  const socket = open({ protocol: NETLINK_NETFILTER });
  let entries = 0;
  let isWhole = true;
  try {
    for (let message: Uint8Array | undefined = dumpOf(query.family); ; ) {
      const part = readPart(await exchangeOrStop(socket, message), query);
      message = undefined;
      entries += part.seen;
      isWhole &&= part.isWhole;
      if (part.wanted.length > 0) await onEntries(part.wanted);
      if (part.isLast) return { entries, isWhole };
    }
  } finally {
    socket.close();
  }
}

/** Undefined: there is nothing more to receive, though the kernel has not said that it is done. */
async function exchangeOrStop(
  socket: Socket,
  message: Uint8Array | undefined,
): Promise<Uint8Array | undefined> {
  try {
    return await socket.exchange(message);
  } catch (error) {
    if (INTERRUPTIONS.includes(codeOf(error))) return undefined;
    throw error;
  }
}

interface Part {
  readonly seen: number;
  readonly wanted: readonly ConntrackEntry[];
  readonly isWhole: boolean;
  readonly isLast: boolean;
}

function readPart(datagram: Uint8Array | undefined, { wants }: ConntrackQuery): Part {
  if (datagram === undefined) return { seen: 0, wanted: [], isWhole: false, isLast: true };
  const wanted: ConntrackEntry[] = [];
  let seen = 0;
  let isWhole = true;
  for (const message of messagesIn(datagram)) {
    isWhole &&= (message.flags & DUMP_INTERRUPTED) === 0;
    if (message.type === DONE_MESSAGE || message.type === ERROR_MESSAGE) {
      const error = errorOf(message);
      if (error !== undefined && !INTERRUPTIONS.includes(error.code)) throw error;
      return { seen, wanted, isWhole: isWhole && error === undefined, isLast: true };
    }
    if (message.type === NEW_ENTRY) seen++;
    const entry = entryOf(message, wants);
    if (entry !== undefined) wanted.push(entry);
  }
  return { seen, wanted, isWhole, isLast: false };
}

/**
 * How many were deleted; those that had gone already do not count, nor do those that the kernel keeps (EBUSY). Rejects
 * as readConntrack does.
 */
export async function deleteConntrack(
  entries: readonly ConntrackEntry[],
  open: OpenConntrackSocket = native.openNetlink,
): Promise<number> {
  if (entries.length === 0) return 0;
  const socket = open({ protocol: NETLINK_NETFILTER });
  try {
    let deleted = 0;
    for (let at = 0; at < entries.length; at += DELETIONS_AT_ONCE) {
      deleted += await deleteBatch(socket, entries.slice(at, at + DELETIONS_AT_ONCE));
    }
    return deleted;
  } finally {
    socket.close();
  }
}

/** All acknowledgements are there when the first one is: the kernel sends them before `send` returns. */
async function deleteBatch(socket: Socket, entries: readonly ConntrackEntry[]): Promise<number> {
  const requests = entries.map((entry, index) => deletionOf(entry, index));
  let deleted = 0;
  for (
    let answer = await socket.exchange(joined(requests));
    answer !== undefined;
    answer = socket.receive()
  ) {
    for (const message of messagesIn(answer)) {
      if (message.type !== ERROR_MESSAGE) continue;
      const error = errorOf(message);
      if (error === undefined) deleted++;
      else if (error.code !== 'ENOENT' && error.code !== 'EBUSY') throw error;
    }
  }
  return deleted;
}

/** Undefined: success. Both kinds of messages begin with a negative errno. */
function errorOf({ body }: Message): (Error & { readonly code: string }) | undefined {
  const errno = -((u32(body) ?? 0) | 0);
  if (errno === 0) return undefined;
  const code = getSystemErrorName(-errno);
  return Object.assign(new Error(`ctnetlink: ${code}`), { code });
}

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error ? String(error.code) : undefined;
