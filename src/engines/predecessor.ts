// SPDX-License-Identifier: Apache-2.0
// What the engine that an earlier agent ran has left in the kernel, when this agent runs another one. Types only.
import type { HeldFrontend } from './dataplane.ts';
import type { PortId } from './snapshot.ts';

export interface PredecessorFacts {
  /** It still decides about new connections. */
  readonly isServing: boolean;
  /** Anything of it is in the kernel. */
  readonly isLeft: boolean;
  /** Connections that it began and that need it; undefined: not known. */
  readonly connections: number | undefined;
}

export interface Predecessor {
  /** `bpf`, `iptables` */
  readonly engine: string;
  look(): Promise<PredecessorFacts>;
  /** Of Services, which the node has because of it. */
  addresses?(): readonly string[];
  /** The frontends that it serves; none if it does not. */
  held(): Promise<readonly HeldFrontend[]>;
  /**
   * Session affinity that it knows goes to this agent's engine, which has programmed all Services.
   * @returns of how many clients
   */
  handAffinity?(): Promise<number>;
  /** New connections are left to this agent's engine; what its own connections need stays. */
  stopServing(): Promise<void>;
  /**
   * After it has ceased to serve: ends flows without connections whose endpoint does not answer, as it may be gone. Takes some seconds if
   * there are any. Called again and again until nothing is left.
   */
  endUnanswered?(): Promise<void>;
  /** Removes what is left. */
  remove(): Promise<void>;
}

/** A client of a service port keeps this backend. */
export interface Remembered {
  readonly port: PortId;
  /** `10.1.1.5:8080` */
  readonly backend: string;
  /** Its source address, canonical. */
  readonly client: string;
  /** Since its last new connection. */
  readonly ageSeconds: number;
}

/** A programmed service port with session affinity. */
export interface AffinityPort {
  readonly port: PortId;
  readonly seconds: number;
  readonly backends: readonly string[];
}
