// SPDX-License-Identifier: Apache-2.0
// The connections that a dataplane translates, read from the kernel one at a time: a node may have a million.
import type { Family, Protocol } from '../model/types.ts';
import type { PortId, Traffic } from './snapshot.ts';

/** Where it was translated. */
export type ConnectionOrigin = 'packet' | 'socket';

export type ConnectionState =
  /** Not answered yet; of UDP: fewer than two packets each way. */
  | 'new'
  | 'established'
  /** One side has sent a FIN. */
  | 'half-closed'
  /** Both have, or one has sent a RST. */
  | 'closed'
  /** An open socket: nothing else is known of it. */
  | 'open';

export type ConnectionBackendState = 'active' | 'terminating' | 'gone';

/** What one record says of a connection. */
export interface Connection {
  /** Identifies it across readings. */
  readonly key: string;
  /** Orders the connections of one service port: by family, frontend and client, addresses by number. */
  readonly order: string;
  readonly origin: ConnectionOrigin;
  readonly family: Family;
  readonly protocol: Protocol;
  /** undefined: its Service port is gone, or not known. */
  readonly port: PortId | undefined;
  /** `address:port`; of a socket `sk:` and its cookie, as `ss -e` prints it. */
  readonly client: string;
  /** `address:port`. */
  readonly frontend: string;
  readonly backend: string;
  readonly backendState: ConnectionBackendState;
  /** As it is now. undefined: it has ended meanwhile. */
  read(): ConnectionView | undefined;
  /** Ends it if its backend is gone. False: it has ended meanwhile, or has another backend. */
  dropStale(): boolean;
}

/** All that is known of it. */
export interface ConnectionView {
  readonly state: ConnectionState;
  /** `address:port` that the backend sees as the client; undefined if it sees the client's own. */
  readonly snat: string | undefined;
  /** Its requests go in Geneve to the backend's node, which answers the client itself. */
  readonly returnsDirectly?: true;
  /** Seconds of CLOCK_MONOTONIC; undefined if not known. */
  readonly bornSeconds: number | undefined;
  readonly seenSeconds: number | undefined;
  /** undefined if not counted. */
  readonly toBackend: Traffic | undefined;
  readonly toClient: Traffic | undefined;
}

export interface Connections {
  /** False: the packet layer is not loaded, so that there are only connections of sockets. */
  readonly hasPackets: boolean;
  /** The Service ports that are programmed. */
  ports(): readonly PortId[];
  /** Each once, in no order; what begins or ends meanwhile may be missing. */
  all(origin?: ConnectionOrigin): Iterable<Connection>;
  close(): void;
}
