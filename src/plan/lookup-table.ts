// SPDX-License-Identifier: Apache-2.0
// The interface to algorithms with a lookup table: a hash of a flow gives an entry, and the entry a backend, the same on every
// node. Each is a folder and a row of decide/balancing.ts; dataplanes know the interface alone.
import type { Protocol } from '../model/types.ts';
import type { BackendList, ServicePortPlan } from './types.ts';

/** What a table is made of. */
export interface LookupInput {
  /** What backends are called on every node, each name once. */
  readonly names: readonly string[];
  /** Of each; 1 or more. */
  readonly weights: readonly number[];
  /** A prime, no less than there are names. */
  readonly entries: number;
}

/** What a client's packets have in common. */
export interface FlowId {
  readonly source: string;
  /** 0: connections of one client are one. */
  readonly sourcePort: number;
  /** Of the frontend, as the client knows it. */
  readonly destination: string;
  readonly destinationPort: number;
  readonly protocol: Protocol;
}

export interface LookupAlgorithm {
  /** What people call it. */
  readonly title: string;
  /** @param asked by the Service, if it asks for a size */
  entriesFor(backends: number, asked?: number): number;
  inputOf(
    port: Pick<ServicePortPlan, 'protocol' | 'tableEntries'>,
    backends: BackendList,
  ): LookupInput;
  /** Indexes of names, by entry. */
  tableOf(input: LookupInput): Uint16Array;
  /** The same in steps, between which others may run. */
  populate(input: LookupInput): Generator<void, Uint16Array>;
  /** From 0. */
  entryOf(flow: FlowId, entries: number): number;
}
