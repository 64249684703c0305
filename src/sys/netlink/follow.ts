// SPDX-License-Identifier: Apache-2.0
// Follows the devices and addresses of this process's network namespace: reads them once, then applies the
// kernel's notifications, those of one turn of the event loop together. If the kernel had to drop
// notifications, everything is read again.
import { followInterfaces } from '../interfaces.ts';
import * as native from '../native.ts';
import { isWithoutAddon } from '../native.ts';
import { EMPTY_NETWORK, type Network, type NetworkFollower, withMessages } from './network.ts';
import { RTM } from './records.ts';
import {
  DONE_MESSAGE,
  DUMP_INTERRUPTED,
  dumpRequest,
  ERROR_MESSAGE,
  type Message,
  messagesIn,
  u32,
} from './wire.ts';

/** The socket as the addon offers it. */
export type OpenSocket = (...args: Parameters<typeof native.openNetlink>) => Socket;

type Socket = Pick<native.NetlinkSocket, 'send' | 'receive' | 'close'>;

const NETLINK_ROUTE = 0;
/** RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR. */
const GROUPS = 0x1 | 0x10 | 0x100;
/** About 2,000 notifications of devices, when the loop is busy. */
const RECEIVE_BUFFER = 4 * 1024 * 1024;
const MAX_DUMPS = 10;

/** Without the addon by what Node lists, which is less. Throws NativeError if the socket cannot be opened or read. */
export function followNetwork(open: OpenSocket = native.openNetlink): NetworkFollower {
  try {
    return new KernelFollower(open);
  } catch (error) {
    if (isWithoutAddon(error)) return followInterfaces();
    throw error;
  }
}

class KernelFollower implements NetworkFollower {
  readonly #open: OpenSocket;
  readonly #socket: Socket;
  readonly #listeners = new Set<() => void>();
  #network: Network;
  #isClosed = false;

  constructor(open: OpenSocket) {
    this.#open = open;
    // Subscribed first: what changes during the dump is notified after it.
    this.#socket = open(
      { protocol: NETLINK_ROUTE, groups: GROUPS, receiveBufferSize: RECEIVE_BUFFER },
      () => this.#read(),
    );
    try {
      this.#network = readNetwork(open);
    } catch (error) {
      this.#socket.close();
      throw error;
    }
  }

  current(): Network {
    return this.#network;
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.close();
  }

  #read(): void {
    if (this.#isClosed) return;
    const before = this.#network;
    const { messages, isOverrun } = drain(this.#socket);
    this.#network = isOverrun ? readNetwork(this.#open) : withMessages(before, messages);
    if (this.#network === before) return;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Everything that has arrived. Of an overrun nothing is used: notifications older than the dump would undo it. */
function drain(socket: Socket): { readonly messages: readonly Message[]; isOverrun: boolean } {
  const messages: Message[] = [];
  let isOverrun = false;
  for (;;) {
    try {
      const datagram = socket.receive();
      if (datagram === undefined) return { messages, isOverrun };
      messages.push(...messagesIn(datagram));
    } catch (error) {
      if (!hasCode(error, 'ENOBUFS')) throw error;
      isOverrun = true;
    }
  }
}

/** Reads everything at once; the kernel answers a request before it returns. */
export function readNetwork(open: OpenSocket = native.openNetlink): Network {
  const socket = open({ protocol: NETLINK_ROUTE });
  try {
    for (let dumps = 1; ; dumps++) {
      const links = dump(socket, RTM.GETLINK, LINK_REQUEST);
      const addresses = dump(socket, RTM.GETADDR, ADDRESS_REQUEST);
      const messages = [...links, ...addresses];
      const isWhole = messages.every(({ flags }) => (flags & DUMP_INTERRUPTED) === 0);
      // Under constant change the last one stands: what it lacks is notified.
      if (isWhole || dumps === MAX_DUMPS) return withMessages(EMPTY_NETWORK, messages);
    }
  } finally {
    socket.close();
  }
}

/** `struct ifinfomsg` and IFLA_EXT_MASK: RTEXT_FILTER_SKIP_STATS, which saves half of the answer. */
const LINK_REQUEST = Uint8Array.of(...new Uint8Array(16), 8, 0, 29, 0, 8, 0, 0, 0);
/** `struct ifaddrmsg`. */
const ADDRESS_REQUEST = new Uint8Array(8);

function dump(socket: Socket, type: number, body: Uint8Array): readonly Message[] {
  socket.send(dumpRequest(type, body));
  const messages: Message[] = [];
  for (;;) {
    const datagram = socket.receive();
    if (datagram === undefined) throw new Error('the answer of the kernel to a dump has no end');
    for (const message of messagesIn(datagram)) {
      messages.push(message);
      if (message.type !== DONE_MESSAGE && message.type !== ERROR_MESSAGE) continue;
      const errno = -((u32(message.body) ?? 0) | 0);
      if (errno !== 0) throw new Error(`the kernel refused to list its devices: errno ${errno}`);
      return messages;
    }
  }
}

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;
