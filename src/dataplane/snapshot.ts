// SPDX-License-Identifier: Apache-2.0
// What views read of any dataplane: rows of frontends and backends, how full its tables are, what became
// of connections, and what is installed where. Values only; nothing here leads back into a dataplane.
import type { Family, Protocol } from '../model/types.ts';
import type { FrontendId } from './entry.ts';

/** One Service port in one family, as people name it. */
export interface PortId {
  readonly namespace: string;
  readonly name: string;
  /** '' for an unnamed port. */
  readonly portName: string;
  readonly protocol: Protocol;
  readonly family: Family;
}

export interface FrontendView {
  readonly id: FrontendId;
  readonly port: PortId;
  /** Backends as `address:port`, in slot order: of clients on this node, and of those outside. */
  readonly internal: readonly string[];
  readonly external: readonly string[];
  readonly internalEmpty: 'reject' | 'drop';
  readonly externalEmpty: 'reject' | 'drop';
  readonly affinitySeconds: number;
  readonly connections: number;
  readonly refused: number;
  readonly dropped: number;
  readonly affinityHits: number;
}

export interface BackendView {
  /** `address:port`. */
  readonly backend: string;
  readonly port: PortId;
  readonly id: number;
  readonly generation: number;
  readonly state: 'active' | 'terminating' | 'free' | 'gone';
  readonly isLocal: boolean;
  readonly connections: number;
  readonly open: number;
}

export interface Snapshot {
  readonly frontends: readonly FrontendView[];
  readonly backends: readonly BackendView[];
}

export interface TableFill {
  readonly name: string;
  readonly used: number;
  readonly capacity: number;
}

export interface PortConnections {
  readonly port: PortId;
  readonly connections: number;
}

export interface Counters {
  readonly tables: readonly TableFill[];
  /** How often connections and datagrams met each outcome, by its name. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** Connections of each frontend. */
  readonly connections: Iterable<PortConnections>;
  /** Waits for an RCU grace period that failed and were tried again. */
  readonly graceWaitFailures: number;
}

/** What a dataplane put into the kernel, and where. */
export interface Installation {
  readonly hooks: readonly Hook[];
  /** What clients of a Service without backends see. */
  readonly refusesWith: 'ECONNREFUSED' | 'EPERM';
  /** cgroup v2 directory whose sockets are translated. */
  readonly cgroupRoot: string;
  /** Folder of its pinned maps and links. */
  readonly bpfRoot: string;
}

export interface Hook {
  readonly name: string;
  /** It was there before this agent: adopted from an earlier one. */
  readonly isAdopted: boolean;
  /** Instructions that the verifier walked. */
  readonly insns: number;
}

/** Names as one comparable text; a Service's name has no `:` and no `/`. */
export const portText = ({ namespace, name, portName, protocol, family }: PortId): string =>
  `${namespace}/${name}${portName === '' ? '' : `:${portName}`}/${protocol}/${family}`;
