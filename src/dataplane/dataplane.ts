// SPDX-License-Identifier: Apache-2.0
// The seam: all that the agent knows of a dataplane. Asynchronous, because a dataplane may have to wait
// for a transaction; its calls are done one after the other in the order they were made. Starting,
// adopting what an earlier agent left, reusing what was freed and removing strays happen inside.
// Only types: what can be served is in capabilities.ts, what views read in snapshot.ts.
import type { Plan, ServiceKey } from '../plan/types.ts';
import type { Capabilities } from './capabilities.ts';
import type { Entry } from './entry.ts';
import type { Counters, Installation, Snapshot } from './snapshot.ts';

/** One address of an interface of the node's own network namespace, canonical. */
export interface NodeAddress {
  readonly family: 'IPv4' | 'IPv6';
  readonly address: string;
}

export type FailureCode =
  /** A table has no room: it must grow, or something must go. */
  | 'MAP_FULL'
  /** The kernel refused the write for another reason; the next try may succeed. */
  | 'WRITE_FAILED';

export interface FailedEntry extends Entry {
  readonly code: FailureCode;
  /** The table that refused it. */
  readonly map?: string;
  /** What failed, why, and what to do. */
  readonly reason: string;
  /** Service it belongs to, if it belongs to one. */
  readonly service?: ServiceKey;
}

/** Partial success is normal and visible: what failed is the caller's to try again. */
export interface SyncReport {
  /** Entries written or deleted. */
  readonly applied: number;
  readonly failed: readonly FailedEntry[];
  readonly elapsedMs: number;
}

export interface AuditReport {
  /** Entries that differed, each text saying how. */
  readonly drift: readonly Entry[];
  readonly report: SyncReport;
}

export interface Dataplane {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  /**
   * Brings these Services to what the plan says of them when their turn comes (`plan.services` is a live
   * view), and the node's own addresses to what NodePorts answer on. `all`: every Service of the plan and
   * every one that is programmed, after which strays are removed. Rejects only if nothing can be said
   * about single entries; then all of it is to be tried again.
   */
  sync(
    plan: Plan,
    changed: Iterable<ServiceKey> | 'all',
    nodeAddresses: readonly NodeAddress[],
  ): Promise<SyncReport>;
  /** Reads back what is programmed, repairs what differs from the plan, and says what it was. */
  audit(plan: Plan, nodeAddresses: readonly NodeAddress[]): Promise<AuditReport>;
  /** What is programmed now, read anew. */
  snapshot(): Promise<Snapshot>;
  /** Cheap enough for every scrape: what cannot be read at once is as of the last time it was. */
  counters(): Counters;
  /** To be told when freed entries are usable again: what failed with MAP_FULL may have room now. */
  onRoom(listener: () => void): void;
  /** Lets go without changing what is programmed: traffic flows on. A turn under way ends early. */
  close(): void;
}

export type OpenDataplane = () => Promise<Dataplane>;
