// SPDX-License-Identifier: Apache-2.0
// Entries that are currently not programmed, and why: per Service, of the node, and of a sync that failed as
// a whole.
import type { FailedEntry } from '../engines/dataplane.ts';
import type { ServiceKey } from '../plan/types.ts';

/** What the dataplane was asked for. A sync that succeeds does not say that what is programmed can be read. */
export type Work = 'sync' | 'audit';

export interface Failures {
  /** Replaces the failures of these Services and of the node. */
  note(services: readonly ServiceKey[], failed: readonly FailedEntry[]): void;
  noteThrown(what: Work, reason: string): void;
  /** What has failed as a whole is made up for. */
  succeeded(what: Work): void;
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
    note(services, failed) {
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
    succeeded: (what) => void thrown.delete(what),
    all,
    isEmpty: () => thrown.size === 0 && ofNode.length === 0 && ofServices.size === 0,
    services: () => [...ofServices.keys()],
    hasFullMap: () => all().some(({ code }) => code === 'MAP_FULL'),
    hasThrown: (what) => thrown.has(what),
  };
}
