// SPDX-License-Identifier: Apache-2.0
// Netlink, network namespaces and sockets.

/** Messages are bytes as in netlink(7), numbers in the machine's byte order. */
export interface NetlinkSocket {
  /** Sends one datagram to the kernel. */
  send(message: Uint8Array): void;
  /**
   * The next datagram from the kernel, without waiting; undefined if there is none. Throws ENOBUFS once after the
   * kernel had to drop some.
   */
  receive(): Uint8Array | undefined;
  /**
   * Sends `message`, if there is one, and receives the next datagram, both on another thread: for requests that take the
   * kernel long, as dumps of large tables. Rejects as `send` and `receive` throw. One at a time; close() lets it end.
   */
  exchange(message?: Uint8Array): Promise<Uint8Array | undefined>;
  /** Ends the calls of `onReadable`. */
  close(): void;
}

/**
 * A netlink socket in the network namespace `netns` (default: the calling thread's; another needs CAP_SYS_ADMIN). `groups` is the bit mask of its multicast groups.
 * `onReadable` is called on the event loop when there is something to receive, and again while there is; a
 * thread waits, the loop never blocks. What it throws is an uncaught exception. With it the socket keeps the
 * process alive until closed.
 */
export function openNetlink(
  options: { protocol: number; groups?: number; receiveBufferSize?: number; netns?: number },
  onReadable?: () => void,
): NetlinkSocket;

/**
 * Cookie of the network namespace `netns` (default: the caller's; another needs CAP_SYS_ADMIN), or undefined before Linux 5.14
 * (SO_NETNS_COOKIE).
 */
export function netnsCookie(options?: { netns?: number }): bigint | undefined;

/** IPv4 and IPv6 addresses of its devices besides the loopback device, by index of the device. */
export function netnsAddresses(options?: { netns?: number }): readonly string[];

/**
 * Of each rule of the tables nat and mangle of x_tables (iptables-legacy), of both families, its `struct xt_entry_target` with what
 * follows it up to the next rule. Makes no table that the namespace `netns` (as netnsCookie) does not have. Needs CAP_NET_RAW there, too.
 */
export function xtTargets(options?: { netns?: number }): { table: string; target: Uint8Array }[];

/**
 * SOCK_DESTROY (sock_diag(7), CONFIG_INET_DIAG_DESTROY) for each struct inet_diag_req_v2 of `requests`, on
 * another thread and in the network namespace `netns` (default: the caller's; another needs CAP_SYS_ADMIN).
 * Resolves with the errno's name of each that failed (ENOENT: there is no such socket; EOPNOTSUPP: the kernel
 * cannot), undefined for the others.
 */
export function destroySockets(
  requests: Uint8Array,
  options?: { netns?: number },
): Promise<readonly (string | undefined)[]>;

/**
 * connect(2) for sockets of other processes, on another thread, each by a duplicate of a descriptor (pidfd_getfd(2), Linux
 * 5.6; takes CAP_SYS_PTRACE). A request is 48 bytes in the machine's byte order: u64 cookie, u32 process, u32 descriptor, then a
 * struct sockaddr_in or sockaddr_in6 in 28 bytes, and 4 unused ones. Resolves with `CALL: ERRNO` of each that failed, as `connect:
 * ENETUNREACH`, `ENOENT` of each that is closed by now or connected to something else, undefined for the others.
 */
export function connectSockets(requests: Uint8Array): Promise<readonly (string | undefined)[]>;

/**
 * TCP connections that are relayed by a thread: it accepts, asks JavaScript for a server, connects to it, and moves bytes
 * (splice(2)) until both directions have ended. JavaScript runs once for a connection, never for its bytes.
 */
export interface Relay {
  /** Connections beyond it are reset when they come: two files each, of those that the process may open (RLIMIT_NOFILE). */
  readonly mostConnections: number;
  /** @param address 4 or 16 bytes. @param port 0: any. Throws as bind(2) and listen(2) fail. */
  listen(address: Uint8Array, port: number): { readonly id: number; readonly port: number };
  /** Nothing is accepted there afterwards; connections go on. */
  unlisten(id: number): void;
  /**
   * Answers to questions, of 88 bytes each: u8 kind (0: the client is reset, 1: forward), u8 family (4 or 6), u16 port, u32
   * connection, 16 bytes of address, u8 size, 7 unused ones, and 56 bytes, of which the first `size` are sent to the server
   * before all that the client sends.
   */
  answer(answers: Uint8Array): void;
  /** Ends listeners and connections, these with a reset. */
  close(): void;
}

/**
 * `onEvents` gets events of 32 bytes each, in their order: u8 kind (1: a connection asks for a server, 2: one that was to be forwarded
 * has ended, 3: one was reset for lack of files), u8 family, u16 port of the client, u32 connection, u32 listener, u32
 * errno (why there was no connection to the server, else 0), 16 bytes of the client's address. Each question takes one answer. A
 * number of a connection is used again after its end. Numbers are in the machine's byte order. It keeps the process alive until closed.
 */
export function openRelay(
  options: { readonly connectTimeoutMs?: number; readonly mostConnections?: number },
  onEvents: (events: Uint8Array) => void,
): Relay;
