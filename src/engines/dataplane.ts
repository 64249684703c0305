// SPDX-License-Identifier: Apache-2.0
// The interface between the agent and a dataplane. Asynchronous, because a dataplane may have to wait for a
// transaction; calls are executed in order. Starting, adopting the state of a previous agent, reusing freed
// entries and removing strays are internal to the dataplane. Types only; capabilities are in capabilities.ts,
// the values that views read in snapshot.ts.
import type { ServiceChange } from '../plan/conntrack/stale-flows.ts';
import type { Plan, ServiceKey } from '../plan/types.ts';
import type { Capabilities } from './capabilities.ts';
import type { Entry, FrontendId } from './entry.ts';
import type { Counters, DeviceView, Installation, Snapshot } from './snapshot.ts';

/** One address of an interface of the node's own network namespace, canonical. */
export interface NodeAddress {
  readonly family: 'IPv4' | 'IPv6';
  readonly address: string;
}

export type FailureCode =
  /** A table is full: it must be enlarged, or entries must be removed. */
  | 'MAP_FULL'
  /** The kernel refused the write for another reason; a retry may succeed. */
  | 'WRITE_FAILED';

export interface FailedEntry extends Entry {
  readonly code: FailureCode;
  /** The table that refused it. */
  readonly map?: string;
  /** What failed, why, and what to do. */
  readonly reason: string;
  /** Service it belongs to, if it belongs to one. */
  readonly service?: ServiceKey;
  /** The Service is programmed with all that it has now, but not in the way that was asked for. */
  readonly isServed?: boolean;
}

/** The Services that an engine reconciles. `all`: every one that is in the plan or programmed. */
export type Changed = readonly ServiceKey[] | 'all';

/** A sync may succeed partially: the caller retries what failed. */
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

/** A frontend that is programmed, or with neither port nor protocol the refusal of a ClusterIP's other ports. */
export interface HeldFrontend {
  readonly dataplane: string;
  readonly id: FrontendId;
  readonly service: ServiceKey;
}

export interface Dataplane {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  /**
   * Reconciles these Services with the plan, and the addresses that accept NodePort connections. After `all` strays are
   * removed. Rejects only if the result of single entries is not known; the caller then
   * retries all of them.
   */
  sync(plan: Plan, changed: Changed, nodeAddresses: readonly NodeAddress[]): Promise<SyncReport>;
  /** Resolves when a sync would not wait: a plan that is taken then has the changes of the time until then. */
  untilDue?(): Promise<void>;
  /** Reads the programmed state back, repairs drift from the plan, and reports it. Rejects as sync does: it is to be asked again. */
  audit(plan: Plan, nodeAddresses: readonly NodeAddress[]): Promise<AuditReport>;
  /** What is programmed, also by a previous agent: cheaper than a snapshot. */
  held(): Promise<Iterable<HeldFrontend>>;
  /** The same of UDP and SCTP alone: cheaper still. */
  heldDatagrams?(): Promise<Iterable<HeldFrontend>>;
  /** Reads the programmed state. */
  snapshot(): Promise<Snapshot>;
  /** Cheap enough for every scrape: values that cannot be read synchronously are those of the last reading. */
  counters(): Counters;
  /** Packets that begin a connection are left to another dataplane, or served again; connections that it knows go on. */
  leaveNewPackets?(isLeft: boolean): void;
  /** The network devices of the node, if programs are attached to devices at all. */
  devices?(): readonly DeviceView[];
  /** Whether packets are among its capabilities from now on; a router that is made later asks it for none, or for them again. */
  servePackets?(isServed: boolean): void;
  /**
   * Called before the first sync, and before that which follows `servePackets`: packets of pods are translated by this dataplane, by another one, or (undefined) by none.
   */
  packetsAreServed?(by: 'itself' | 'another' | undefined): void;
  /** An earlier agent has taken part in direct return: its flows may go on. */
  hadDirectReturn?(): boolean;
  /** `listener` is called when freed entries are reusable: a retry after MAP_FULL may succeed. */
  onRoom(listener: () => void): void;
  /** `listener` is called when somebody else has removed what was programmed: an audit writes it again. */
  onLoss?(listener: () => void): void;
  /**
   * Called before close(), where sockets of the agent serve and a successor takes over: they serve with the last plan until what
   * is returned is closed. Absent: the kernel serves.
   * @param to `sockets`: the successor opens its own, so that these are closed at once; connections go on
   */
  serveOn?(to: 'sockets' | 'kernel'): { close(): void };
  /** Before a stop: sockets of the agent accept nothing any more. Resolves when their last connection has ended. */
  drain?(): Promise<void>;
  /** Closes the dataplane; the programmed state is kept and serves traffic. A running sync ends early. */
  close(): void;
}

/** What Services were when they were last programmed, and are now. */
export type ServiceChanges = ReadonlyMap<ServiceKey, ServiceChange>;

/** What has been synced. */
export interface Synced {
  readonly report: SyncReport;
  readonly services: readonly ServiceKey[];
  /** Those of them that had changed and are programmed now. */
  readonly changes: ServiceChanges;
  /** It was every Service. */
  readonly isFull: boolean;
}

export interface SyncedAudit extends Synced {
  readonly drift: AuditReport['drift'];
}

/** What the agent runs: one dataplane, or several behind a router. It knows what of the plan is programmed (progress.ts). */
export interface ComposedDataplane extends Omit<Dataplane, 'sync' | 'audit'> {
  /** Programs what differs from the last plan, and with `isRetry` what failed. Rejects as a dataplane does. */
  sync(plan: Plan, nodeAddresses: readonly NodeAddress[], isRetry?: boolean): Promise<Synced>;
  audit(plan: Plan, nodeAddresses: readonly NodeAddress[]): Promise<SyncedAudit>;
  /** Of each, in the order in which they are asked to serve a frontend. */
  readonly dataplanes: readonly Capabilities[];
  devices(): readonly DeviceView[];
  hadDirectReturn(): boolean;
  leaveNewPackets(isLeft: boolean): void;
  /**
   * Rules serve packets for this reason, or eBPF again (undefined): a sync of everything is due, and whatever it has not
   * written is served as before. False: they stay where they are, and the log says why. Absent: they cannot move.
   */
  movePackets?(reason: string | undefined): Promise<boolean>;
}
