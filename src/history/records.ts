// SPDX-License-Identifier: Apache-2.0
// The records of the history, as they are on disk: short names, because there is one for every change. Types only.
import type { ServiceKey } from '../plan/types.ts';

/** When, and in which order. */
export interface Stamp {
  /** Counts records: the order holds whatever the clock says. */
  readonly n: number;
  /** Milliseconds since the epoch, by the clock of the node. */
  readonly at: number;
  /** Milliseconds since the boot, which nobody sets. */
  readonly up: number;
}

/** What one port of a Service has in the kernel. */
export interface PortState {
  /** Frontends: `ClusterIP 10.96.0.10:80`. */
  readonly f: readonly string[];
  /** Backends of all nodes as topology allows: `10.1.0.5:8080`, sorted. */
  readonly c: readonly string[];
  /** Backends of this node; absent = no frontend uses them. */
  readonly l?: readonly string[];
  /** How one is chosen, if that is not at random: `affinity=10800s algorithm=maglev`. */
  readonly o?: string;
}

/** By port: `http/TCP/IPv4`. */
export type ServiceState = Readonly<Record<string, PortState>>;

/** What came, and what went. */
export type ListDiff = readonly [plus: readonly string[], minus: readonly string[]];

export interface PortDiff {
  readonly f?: ListDiff;
  readonly c?: ListDiff;
  readonly l?: ListDiff;
  readonly o?: string;
}

/** By port; null: the port, or the Service, is no more. */
export type ServiceDiff = Readonly<Record<string, PortDiff | null>> | null;

/** A change of an object, as the source delivered it. */
export interface ApiEvent {
  readonly kind: string;
  readonly name: string;
  readonly rv?: string;
  readonly removed?: true;
  /** Received: milliseconds since the epoch. */
  readonly at: number;
  /** The annotation with the time of the change behind it. */
  readonly trigger?: number;
  /** From here to the kernel, in milliseconds, by a clock that nobody sets. */
  readonly took?: number;
}

export interface ServiceChangeRecord {
  readonly s: ServiceKey;
  readonly d: ServiceDiff;
  readonly e?: readonly ApiEvent[];
  /** So many events more. */
  readonly more?: number;
}

export type HistoryRecord = Stamp &
  (
    | {
        /** An agent has started: what was written since then is its own. */
        readonly t: 'epoch';
        readonly boot: string;
        readonly version: string;
        readonly node: string;
        /** Bytes at the end of the segment that were no whole record. */
        readonly torn?: number;
      }
    | {
        /** All that is programmed, in parts: a segment begins with it, so that it needs no earlier one. */
        readonly t: 'key';
        readonly isLast?: true;
        readonly services: Readonly<Record<ServiceKey, ServiceState>>;
      }
    | {
        readonly t: 'sync';
        readonly ms: number;
        readonly services: readonly ServiceChangeRecord[];
        /** What differs from the end of the agent before. */
        readonly isStart?: true;
        /** Entries that the kernel refused. */
        readonly failed?: readonly { readonly s?: ServiceKey; readonly reason: string }[];
      }
    | {
        /** Changes that could not be written: what follows begins with a full state. */
        readonly t: 'gap';
        readonly lost: number;
        readonly reason: string;
      }
  );
