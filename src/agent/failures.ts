// SPDX-License-Identifier: Apache-2.0
// Entries that are currently not programmed, and why: per Service, of the node, and of a sync that failed as
// a whole.
import type { FailedEntry } from '../engines/dataplane.ts';
import type { ServiceKey } from '../plan/types.ts';

export interface Synced {
  readonly services: readonly ServiceKey[];
  /** Every Service was synced, so also those of a sync that failed as a whole. */
  readonly isFull: boolean;
}

/** What the dataplane was asked for. A sync that succeeds does not say that what is programmed can be read. */
export type Work = 'sync' | 'audit';

export interface Failures {
  /** Replaces the failures of the Services of this sync and of the node. */
  note(synced: Synced, failed: readonly FailedEntry[]): void;
  noteThrown(what: Work, reason: string): void;
  /** An audit has succeeded. */
  audited(): void;
  all(): readonly FailedEntry[];
  isEmpty(): boolean;
  services(): readonly ServiceKey[];
  hasFullMap(): boolean;
  hasThrown(what: Work): boolean;
}

export function createFailures(dataplane: string): Failures {
  const ofServices = new Map<ServiceKey, readonly FailedEntry[]>();
  let ofNode: readonly FailedEntry[] = [];
  const thrown = new Map<Work, FailedEntry>();
  const all = (): readonly FailedEntry[] => [
    ...[...thrown.values()].slice(0, 1),
    ...ofNode,
    ...[...ofServices.values()].flat(),
  ];
  return {
    note({ services, isFull }, failed) {
      if (isFull) thrown.delete('sync');
      ofNode = failed.filter(({ service }) => service === undefined);
      for (const key of services) ofServices.delete(key);
      for (const entry of failed) {
        if (entry.service === undefined) continue;
        ofServices.set(entry.service, [...(ofServices.get(entry.service) ?? []), entry]);
      }
    },
    noteThrown(what, reason) {
      const id = { kind: 'dataplane', dataplane } as const;
      thrown.set(what, { id, text: `dataplane ${dataplane}`, code: 'WRITE_FAILED', reason });
    },
    audited: () => void thrown.delete('audit'),
    all,
    isEmpty: () => thrown.size === 0 && ofNode.length === 0 && ofServices.size === 0,
    services: () => [...ofServices.keys()],
    hasFullMap: () => all().some(({ code }) => code === 'MAP_FULL'),
    hasThrown: (what) => thrown.has(what),
  };
}
