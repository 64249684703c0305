// SPDX-License-Identifier: Apache-2.0
// The protocol between the traffic driver and its client programs: one JSON object per line, requests on
// the client's standard input, replies and progress on its standard output. Types only.
// Times are milliseconds since the epoch with fractions, so that all processes of one machine agree.

export interface SocketAddress {
  readonly address: string;
  readonly port: number;
}

/** The destination. The kind of socket follows from the address: `::ffff:10.96.0.10` is a v6 socket. */
export interface Target extends SocketAddress {
  readonly protocol: 'TCP' | 'UDP';
  /** UDP: connect() the socket first, so that the kernel looks the Service up once. */
  readonly isConnected?: boolean;
  /** Bind to this address first. */
  readonly localAddress?: string;
}

/** How one exchange ended. */
export type Answer =
  | {
      readonly kind: 'answered';
      /** Name of the server that answered. */
      readonly backend: string;
      /** The client address the server saw. */
      readonly clientSeen: SocketAddress;
      readonly local: SocketAddress;
      /** getpeername(); absent for a UDP socket that is not connected. */
      readonly peer?: SocketAddress;
      /** UDP: the source address of the reply. */
      readonly source?: SocketAddress;
      /** What the server echoed, if anything was sent to be echoed. */
      readonly text?: string;
      readonly elapsedMs: number;
    }
  | {
      readonly kind: 'failed';
      /** The errno's name, or `TIMEOUT` if nothing came in time. */
      readonly code: string;
      readonly elapsedMs: number;
    };

/** Counts of answers by backend and of failures by code. */
export interface Tally {
  readonly connections: number;
  readonly hits: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, number>>;
  readonly elapsedMs: number;
}

export interface LoadFailure {
  readonly atMs: number;
  readonly code: string;
}

/** A continuous load so far. */
export interface LoadReport {
  readonly startedMs: number;
  readonly connections: number;
  readonly hits: Readonly<
    Record<string, { readonly count: number; readonly firstMs: number; readonly lastMs: number }>
  >;
  readonly failureCount: number;
  /** The first few, with the start time of each connection. */
  readonly failures: readonly LoadFailure[];
  /** The longest time without any answer. */
  readonly longestGapMs: number;
}

interface Exchange {
  readonly target: Target;
  readonly timeoutMs: number;
}

/** All requests of a client program. */
export interface Operations {
  once: { request: Exchange; reply: Answer };
  burst: {
    request: Exchange & { readonly connections: number; readonly concurrency: number };
    reply: Tally;
  };
  startLoad: {
    request: Exchange & { readonly concurrency: number; readonly pauseMs: number };
    reply: { readonly load: number };
  };
  readLoad: { request: { readonly load: number }; reply: LoadReport };
  stopLoad: { request: { readonly load: number }; reply: LoadReport };
  /** Opens a socket that stays open; the answer is the server's greeting (TCP) or empty (UDP). */
  open: { request: Exchange; reply: { readonly socket: number; readonly answer?: Answer } };
  /** Sends text over an open socket; `to` only for UDP sockets that are not connected. */
  talk: {
    request: {
      readonly socket: number;
      readonly text: string;
      readonly to?: SocketAddress;
      readonly timeoutMs: number;
    };
    reply: Answer;
  };
  close: { request: { readonly socket: number }; reply: Record<string, never> };
}

export type OperationName = keyof Operations;

export interface RequestMessage<Op extends OperationName> {
  readonly id: number;
  readonly op: Op;
  readonly request: Operations[Op]['request'];
}

/** `progress` may come any number of times before the one line that has `reply` or `error`. */
export interface ReplyMessage<Op extends OperationName> {
  readonly id: number;
  readonly progress?: number;
  readonly reply?: Operations[Op]['reply'];
  readonly error?: string;
}

/** What an echo server answers, one line a request (TCP: also once as a greeting, without text). */
export interface Echo {
  readonly backend: string;
  readonly client: SocketAddress;
  readonly text?: string;
}
