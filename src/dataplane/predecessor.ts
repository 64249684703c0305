// SPDX-License-Identifier: Apache-2.0
// What the engine that an earlier agent ran has left in the kernel, when this agent runs another one. Types only.

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
  /** New connections are left to this agent's engine; what its own connections need stays. */
  stopServing(): Promise<void>;
  /** Removes what is left. */
  remove(): Promise<void>;
}
