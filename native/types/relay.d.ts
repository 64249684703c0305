// SPDX-License-Identifier: Apache-2.0
// TCP connections that are relayed by a thread: it accepts, asks JavaScript for a backend, connects to it, and moves bytes
// (splice(2)) until both directions have ended. JavaScript runs once for a connection, never for its bytes.

export interface Relay {
  /** Connections beyond it are reset when they come: two files each, of those that the process may open (RLIMIT_NOFILE). */
  readonly mostConnections: number;
  /** @param address 4 or 16 bytes. @param port 0: any. Throws as bind(2) and listen(2) fail. */
  listen(address: Uint8Array, port: number): { readonly id: number; readonly port: number };
  /** Nothing is accepted there afterwards; connections go on. */
  unlisten(id: number): void;
  /**
   * Answers to questions, of 88 bytes each: u8 kind (0: the client is reset, 1: forward), u8 family (4 or 6), u16 port, u32
   * connection, 16 bytes of address, u8 size, 7 unused ones, and 56 bytes, of which the first `size` are sent to the backend
   * before all that the client sends.
   */
  answer(answers: Uint8Array): void;
  /** Ends listeners and connections, these with a reset. */
  close(): void;
}

/**
 * `onEvents` gets events of 32 bytes each, in their order: u8 kind (1: a connection asks for a backend, 2: one that was to be forwarded
 * has ended, 3: one was reset for lack of files), u8 family, u16 port of the client, u32 connection, u32 listener, u32
 * errno (why there was no connection to the backend, else 0), 16 bytes of the client's address. Each question takes one answer. A
 * number of a connection is used again after its end. Numbers are in the machine's byte order. It keeps the process alive until closed.
 */
export function openRelay(
  options: { readonly connectTimeoutMs?: number; readonly mostConnections?: number },
  onEvents: (events: Uint8Array) => void,
): Relay;
